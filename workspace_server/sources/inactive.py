"""A configured server that is not in use: disabled, not trusted yet, or with a limit that we cannot keep.

The source exists for lists and status only. It never starts a process and never connects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from lm_tools_bridge.protocol.issues import Issue
from workspace_server.call_context import CallContext
from workspace_server.config.model import RemoteServer, StdioServer
from workspace_server.source import Source, not_running
from workspace_server.tool import CallOutcome, Tool, ToolError
from workspace_server.trust.item import Verdict, trust_command

_MAX_NAME: Final = 64
"""Characters of a name in a sentence: the names of tools that begin with it may have 64."""
_NOT_RESTARTED: Final = {
    "disabled": "it is disabled, so nothing was started",
    "pending_trust": "it waits for your trust, so nothing was started",
    "failed": "it may not start, so nothing was started",
}
_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9._/-]{1,80}")


class InactiveSource(Source):
    """One entry of the configuration that is not in use.

    Args:
        entry: the entry.
        state: why it is not in use.
        verdict: for one that waits for trust, whether it was trusted before.
        root: the workspace's folder, which the user would trust.
        data: files that may be data, and that changed since the entry was trusted.
        error: for one that failed, why it may not start.
    """

    def __init__(
        self,
        entry: StdioServer | RemoteServer,
        state: Literal["disabled", "pending_trust", "failed"],
        verdict: Verdict = "never",
        root: str = "",
        data: Sequence[str] = (),
        *,
        error: str | None = None,
    ) -> None:
        self.kind = "stdio" if isinstance(entry, StdioServer) else "remote"
        self.id = f"{self.kind}:{entry.namespace}"
        self.namespace = None if entry.bare else entry.namespace
        self.separator = entry.separator
        self.state = state
        self.error = error
        self.trust_path = root
        self.trust_hint = _data_hint(data, root)
        self._issue = None
        if state == "pending_trust":
            self._issue = pending_issue(
                f"The {self.kind} server {entry.namespace[:_MAX_NAME]}", verdict, root, self.trust_hint
            )

    async def list_tools(self) -> Sequence[Tool]:
        """None: nobody has asked it."""
        return ()

    def cached_tools(self) -> Sequence[Tool]:
        """None."""
        return ()

    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """It offers nothing, so nothing can be called."""
        if self.error is not None:
            return not_running(self.id, self.state, self.error)
        raise ToolError(f"{self.id} is not in use")

    async def restart(self) -> str:
        """As `Source.restart`."""
        return _NOT_RESTARTED[self.state]

    def issues(self) -> Sequence[Issue]:
        """What the user can do about it."""
        return () if self._issue is None else (self._issue,)

    async def close(self) -> None:
        """Nothing was started."""


def pending_issue(what: str, verdict: Verdict, root: str, hint: str = "") -> Issue:
    """The issue of content of the workspace that the user has not allowed."""
    why = "changed since you trusted it" if verdict == "changed" else "not trusted yet"
    message = f"{what}: {why}{f'. {hint}' if hint else ''}"
    return Issue("warning", "trust", "TRUST_PENDING", message, details=trust_command(root))


def _data_hint(paths: Sequence[str], root: str) -> str:
    """What to do if the server itself changed these files. A name that could carry a message is not said."""
    if not paths or not all(map(_PLAIN_PATH.fullmatch, paths)):
        return ""
    line = f"data = [{', '.join(json.dumps(path) for path in paths)}]"
    files = ", ".join(paths)
    command = f"{trust_command(root)} --data"
    return f"{files} changed. If the server writes to it, {command} or {line} in its entry prevents this"
