"""Forwards one request to a workspace server and reads its answer."""
