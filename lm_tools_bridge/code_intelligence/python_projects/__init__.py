"""What language servers need to know of a project in Python: its environment, and what its tools check."""
