"""Sections about tools: built-in tools, searches and language tools, beside programs that do the same."""
