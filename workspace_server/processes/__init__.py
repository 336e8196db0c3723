"""Processes this server starts: how they begin, what they may see, and that nothing of them is left.

What they are started for is not known here: scripts, stdio servers and language servers are the callers.
"""
