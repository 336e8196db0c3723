"""Calls that wait for a person's approval, in all workspaces."""
