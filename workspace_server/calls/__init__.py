"""Runs tool calls: from a request, through gates and argument checks, to a source and back.

There is one module per step of a call. The ways a call can run are listed in `call.py`.
"""
