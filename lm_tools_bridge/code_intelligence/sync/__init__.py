"""Keeps a server's picture of the project up to date: what changed on disk, and when it has read it."""
