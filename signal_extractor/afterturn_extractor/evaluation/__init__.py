"""How well a judge reads labelled next states."""
