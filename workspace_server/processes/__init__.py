"""Starts, confines and ends child processes for script tools, stdio servers and language servers."""
