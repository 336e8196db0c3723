"""Verbs that show what the manager reports: its state, its clients, its log."""
