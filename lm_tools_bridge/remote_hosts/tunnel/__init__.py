"""The line to another host: many connections over one pair of pipes (HTTP/2), on both of its ends."""
