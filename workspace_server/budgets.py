"""Fixed budgets of a workspace server: processes, tasks and bytes that all its clients share. Pure.

Bounds of one format or message stay beside what reads it. The budgets are listed in docs/operations.md, with
what happens at each, and a test compares them.
"""

from __future__ import annotations

from typing import Final

MAX_SCRIPTS: Final = 8
"""Scripts that run at a time."""
MAX_SESSION_PROCESSES: Final = 32
"""Processes of one stdio server, where each session has its own."""
MAX_TASKS: Final = 256
"""Tasks that are running or whose results are kept."""
MAX_SUSPENDED_CALLS: Final = 64
"""Calls that wait for an answer of their user."""
