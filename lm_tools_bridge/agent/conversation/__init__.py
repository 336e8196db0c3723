"""Runs the conversation: turns of a person, rounds of the model, calls of tools, and their history."""
