"""The wire: what crosses between clients, the manager and workspace servers.

Pure: standard library, pydantic and msgspec only; no clock, no I/O, no randomness, and nothing of ours.
Both `manager` and `workspace_server` import it, so the two ends of every hop cannot disagree.
"""
