"""Asks a model server over HTTP, in any dialect: requests, deadlines, retries, and the bytes of replies."""
