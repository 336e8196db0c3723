"""HTTP client for workspace servers: connections, responses, pool and header cache."""
