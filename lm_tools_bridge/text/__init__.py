"""Reads and words text for people: names, secrets, forms, TOML."""
