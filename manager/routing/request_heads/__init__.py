"""Parses and admits the heads of requests. Pure."""
