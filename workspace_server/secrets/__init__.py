"""Stores the user's secrets (API keys): reads them from several places, writes to the safest one."""
