"""Parses requests: heads, framing, bodies. Pure."""
