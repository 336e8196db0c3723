"""Language servers: in memory, as small programs, recording ones, and those that others wrote."""
