"""Runs calls as tasks: clients get a task id and poll for the result, even after a restart (SEP-2663)."""
