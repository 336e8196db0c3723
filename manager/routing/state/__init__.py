"""Tables of what the manager knows: sessions, servers, clients, port leases, timings. Pure."""
