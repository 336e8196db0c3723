"""What is recorded of requests: their clients, the origin and trace of calls, the calls answered here."""
