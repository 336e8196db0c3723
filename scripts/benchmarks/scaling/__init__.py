"""Sections about many clients: processor time, memory and processes as their number grows."""
