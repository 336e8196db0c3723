"""The readable prefix of a `requestState` that a workspace server sealed: workspace and kind of state.

Only the server can read the rest. The prefix lets the manager route a repeated call without keeping any
state. The seal covers the prefix, so that the server refuses a state with another prefix.
"""

from __future__ import annotations

from base64 import b32encode
from hashlib import sha256
from typing import Final

TAG: Final = "lmtb2"
SUSPENDED: Final = "held"
APPROVAL: Final = "ask"
"""The kinds of state that the manager distinguishes: a suspended call waits for input responses inside the
server; a call that waits for approval has not started."""
# Enough of an id that two waiting calls hardly share it, and short enough to type.
SHORT_ID: Final = 8
INVALID_STATE: Final = "state_lost"
"""The `reason` in the error data for an invalid or expired state."""


def prefix(workspace: str) -> str:
    """The prefix of states of this workspace. Workspace ids contain no dot."""
    return f"{TAG}.{workspace}."


def workspace_of(state: str) -> str | None:
    """The workspace that a state names; None if no workspace server made the state."""
    tag, _, rest = state.partition(".")
    workspace, dot, _ = rest.partition(".")
    return workspace if tag == TAG and dot and workspace else None


def is_suspended(state: str) -> bool:
    """Whether the call is suspended in the server and continues there with the input responses."""
    return _kind_of(state) == SUSPENDED


def is_not_started(state: str) -> bool:
    """Whether the call has not started: it waits for the user's approval."""
    return _kind_of(state) == APPROVAL


def approval_id(state: str) -> str:
    """The id of the approval that a state belongs to: its whole digest, which no other state has."""
    return b32encode(sha256(state.encode("utf-8", "surrogatepass")).digest()).decode().rstrip("=").lower()


def short_approval_id(identity: str) -> str:
    """What people see and type of an approval's id. Different calls can have the same one.

    The name of another host before it is kept.
    """
    host, before, own = identity.rpartition(":")
    return f"{host}{before}{own[:SHORT_ID]}"


def _kind_of(state: str) -> str | None:
    return state.split(".")[2] if workspace_of(state) is not None else None
