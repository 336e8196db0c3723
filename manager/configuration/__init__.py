"""Settings, fixed budgets, and the places of files."""
