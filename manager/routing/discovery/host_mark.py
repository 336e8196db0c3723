"""The mark of workspaces on other hosts: whose paths their answers contain, and who can read them. Pure."""

from __future__ import annotations

import shlex

from lm_tools_bridge.protocol import names
from manager.routing.workspace.remote_address import RemoteRoot


def host_mark(place: RemoteRoot) -> str:
    """One sentence for models, and one about trust."""
    root = f"{place.host}{place.path}"
    return (
        f"This workspace is on another host, {place.host}: all paths in its answers are paths there. Your own"
        " file and shell tools cannot reach them, so use this workspace's tools (lm_readFile, lm_findFiles"
        f" …). What waits for trust there is allowed by the user with: lmtb trust {shlex.quote(root)}"
    )


def remote_step(place: RemoteRoot) -> str:
    """The mark as a step of a handshake's guidance."""
    return (
        f"{host_mark(place)}. To name another folder there, call {names.HANDSHAKE} with cwd = {place.host}/…"
    )
