"""State tables: sessions, registered servers, recent clients, port leases, timings, lifecycle. Pure."""
