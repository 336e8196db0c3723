"""Administration: control socket, registration of servers, port allocation, status, log and metrics."""
