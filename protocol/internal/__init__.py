"""What the manager and its workspace servers say to each other: launch orders, registration, fork server,
result trims."""
