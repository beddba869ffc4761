"""Everything of an install in one folder, taken while it runs, and put back elsewhere."""
