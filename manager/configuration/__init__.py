"""Settings and where they are read, fixed budgets, and the places of files."""
