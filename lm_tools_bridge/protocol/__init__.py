"""The wire protocol between clients, the manager and workspace servers.

Pure: standard library, pydantic and msgspec only; no clock, no I/O, no randomness, no other package of this
project. `manager` and `workspace_server` both import it, so that both ends of a connection agree.
"""
