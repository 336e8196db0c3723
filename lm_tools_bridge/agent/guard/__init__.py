"""Decides which calls run: by rules, or by asking the person, once per call; every decision is on record."""
