"""The outside of a `requestState` that a workspace server seals: which workspace it belongs to.

What is inside is the server's own business and opened only there. The workspace is written in front so that a
repeated call finds its way back without anything remembered; the seal covers it, so another one in its place
only leads to a refusal.
"""

from __future__ import annotations

from typing import Final

TAG: Final = "lmtb2"
HELD: Final = "held"
"""The kind of a state whose call is held open: it stands behind the workspace."""


def prefix(workspace: str) -> str:
    """What a state of this workspace begins with; ids of workspaces have no dot (M-127)."""
    return f"{TAG}.{workspace}."


def workspace_of(state: str) -> str | None:
    """The workspace that a state names, None where it is none of ours."""
    tag, _, rest = state.partition(".")
    workspace, dot, _ = rest.partition(".")
    return workspace if tag == TAG and dot and workspace else None


def is_held(state: str) -> bool:
    """Whether the call of a state of ours waits inside for the answers, and is not made anew with them."""
    return workspace_of(state) is not None and state.split(".")[2] == HELD
