"""Reads and judges the heads of requests. Pure."""
