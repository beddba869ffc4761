"""Random `kill -9` of every process under traffic, and what was acknowledged counted before and after."""
