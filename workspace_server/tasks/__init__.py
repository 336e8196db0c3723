"""Calls that go on without their client: what a task is, how it runs, how it survives (SEP-2663)."""
