"""What survives the manager: the state file in SQLite, and the writes that it refused."""
