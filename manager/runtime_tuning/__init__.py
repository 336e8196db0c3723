"""Tunes the Python runtime of the manager: when it collects garbage, and how malloc keeps memory."""
