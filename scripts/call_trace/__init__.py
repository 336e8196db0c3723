"""Traces one call through the manager and the workspace server: which modules it enters."""
