"""Checks the JSON Schemas of tools, and arguments against them."""
