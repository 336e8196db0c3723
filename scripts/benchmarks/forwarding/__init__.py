"""Sections about a call through the manager: what it costs, alone and beside other work of the manager."""
