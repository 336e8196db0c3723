"""Runs what the documentation shows: its commands, typed at a terminal of a user who has nothing yet."""
