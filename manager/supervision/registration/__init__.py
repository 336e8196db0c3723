"""Workspace servers that users started, and that registered themselves."""
