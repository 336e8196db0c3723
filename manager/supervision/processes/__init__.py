"""Operating-system processes of workspace servers: start, environment, log files, fork server, leftovers."""
