"""The outside of a `requestState` that a workspace server seals: which workspace it belongs to.

What is inside is the server's own business and opened only there. The workspace is written in front so that a
repeated call finds its way back without anything remembered; the seal covers it, so another one in its place
only leads to a refusal.
"""

from __future__ import annotations

from typing import Final

TAG: Final = "lmtb2"
SUSPENDED: Final = "held"
APPROVAL: Final = "ask"
"""The kinds of states that matter outside, which stand behind the workspace: of a call that is held open, and
of one that has not begun, because its user is asked whether it may run."""
INVALID_STATE: Final = "state_lost"
"""What stands under `reason` in the data of the error for a state that is not good, or no longer."""


def prefix(workspace: str) -> str:
    """What a state of this workspace begins with; ids of workspaces have no dot."""
    return f"{TAG}.{workspace}."


def workspace_of(state: str) -> str | None:
    """The workspace that a state names, None where it is none of ours."""
    tag, _, rest = state.partition(".")
    workspace, dot, _ = rest.partition(".")
    return workspace if tag == TAG and dot and workspace else None


def is_suspended(state: str) -> bool:
    """Whether the call of a state of ours waits inside for the answers, and is not made anew with them."""
    return _kind_of(state) == SUSPENDED


def is_not_started(state: str) -> bool:
    """Whether the call of a state of ours has not run so far in any part."""
    return _kind_of(state) == APPROVAL


def _kind_of(state: str) -> str | None:
    return state.split(".")[2] if workspace_of(state) is not None else None
