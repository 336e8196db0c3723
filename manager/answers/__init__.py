"""Answers that the manager gives itself: handshake, callTool, merged lists, its own resources.

There is one module per answer, and five that all of them share: exchange, dispatch, workspace lookup,
upstream request and result format.
"""
