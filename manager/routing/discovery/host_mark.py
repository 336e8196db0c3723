"""The mark of workspaces on other hosts: whose paths their answers contain, and who can read them. Pure."""

from __future__ import annotations

import shlex

from lm_tools_bridge.protocol import names


def host_mark(host: str, root: str) -> str:
    """One sentence for models, and one about trust.

    Args:
        host: the address of the host.
        root: the address of the workspace's root, such as `ssh://build/srv/app`.
    """
    return (
        f"This workspace is on another host, {host}: all paths in its answers are paths there. Your own file"
        " and shell tools cannot reach them, so use this workspace's tools (lm_readFile, lm_findFiles …)."
        f" What waits for trust there is allowed by the user with: lmtb trust {shlex.quote(root)}"
    )


def remote_step(host: str, root: str) -> str:
    """The mark as a step of a handshake's guidance."""
    return (
        f"{host_mark(host, root)}. To name another folder there, call {names.HANDSHAKE} with cwd = {host}/…"
    )
