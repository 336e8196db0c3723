"""HTTP of a workspace server: connections, requests, responses, routes."""
