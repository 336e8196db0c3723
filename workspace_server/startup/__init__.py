"""Starts the process of a workspace server: from launch instructions, or forked from a warm fork server."""
