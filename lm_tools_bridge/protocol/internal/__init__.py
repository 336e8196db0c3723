"""Messages between the manager and workspace servers: launch, registration, fork server, result trims."""
