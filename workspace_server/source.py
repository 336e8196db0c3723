"""Defines the interface of a source: the built-in tools, a script folder, or another MCP server."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from protocol import jsonrpc
from protocol.issues import Issue
from protocol.versions import Era
from workspace_server.call_context import CallContext
from workspace_server.tool import CallOutcome, Extras, RpcError, Tool

SourceKind = Literal["builtin", "script", "stdio", "remote", "language-server", "editor"]
SourceState = Literal[
    "starting",  # not answered yet
    "connecting",  # the same for a remote server
    "ready",
    "backoff",  # ended or failed; tried again by itself
    "crash_looping",  # ended too often; tried once a minute
    "auth_required",  # waits for the user's credentials
    "failed",  # not tried again by itself
    "pending_trust",  # waits for `lmtb trust`
    "disabled",
]
Default = Literal["enabled", "exposed", "off"]
"""What the policy makes of a source's tools when nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """What a server said of itself when a session with it was opened; texts are its own, not cleaned."""

    era: Era
    revision: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    server_info: Mapping[str, Any] = field(default_factory=dict)
    instructions: str | None = None


class Source(ABC):
    """One origin of tools.

    Attributes:
        id: stable and unique within the workspace, e.g. `builtin`, `script`, `stdio:github`.
        namespace: prefix of the tool names, or None where tools keep their bare names.
        separator: what stands between namespace and name: `__`, `_` or `-`.
        default: what the policy makes of its tools when nobody says otherwise.
        include: patterns (`fnmatch`, case-sensitive) of the source's own tool names; empty for all.
        exclude: patterns of names that are left out; beats `include`.
        keywords: words that every tool of it is found by in `tool_search`.
        state: whether the source answers.
        error: why it does not, in words for a person; None while all is well.
        stale: whether the source itself knows that its list may be out of date.
        trust_path: what the user would trust, for one in the state `pending_trust`.
        timeout_s: the longest one request to it may take; None for the server's default.
        immediate: own names of tools that `call_nowait` runs.
        revision: counts up whenever tools, state or issues may have changed.
    """

    id: str
    kind: SourceKind
    namespace: str | None = None
    separator: str = "__"
    default: Default = "enabled"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    state: SourceState = "ready"
    error: str | None = None
    stale: bool = False
    trust_path: str = ""
    timeout_s: float | None = None
    immediate: frozenset[str] = frozenset()
    revision: int = 0

    _listener: Callable[[], None] | None = None

    @abstractmethod
    async def list_tools(self) -> Sequence[Tool]:
        """All tools of the source, from its cache where that saves time. Never raises: see `state`."""

    def known(self) -> Sequence[Tool] | None:
        """What `list_tools` would answer, if that takes no waiting; None where it has to be asked."""
        return None

    @abstractmethod
    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run the tool by its own (not namespaced) name.

        The caller keeps the deadline: cancelling the task cancels the work, and when the call ends, nothing
        it started is left.

        Raises:
            ToolError: the tool failed in a way its caller should read.
            InvalidArguments: an argument cannot be served.
        """

    def call_nowait(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        """As `call_tool`, for one of the `immediate` tools: it waits for nothing and asks nobody."""
        raise NotImplementedError

    def extras(self) -> Extras:
        """What it is known to offer beside tools; `list_tools` waits a moment for it to be known."""
        return Extras()

    async def relay(
        self, method: str, params: Mapping[str, msgspec.Raw], context: CallContext
    ) -> CallOutcome:
        """Put any request to the source on behalf of a client, by the source's own names and cursors.

        Deadline and cancellation are the caller's, as for `call_tool`. Never raises for what the other side
        does.

        Args:
            method: e.g. `prompts/get`.
            params: its parameters, without `_meta`.
            context: who asks; its `params` bring `_meta`.
        """
        return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{self.id} has no method {method}")

    async def greeting(self) -> HandshakeResult | None:
        """What the server behind it says of itself; None where there is no server, or it does not answer."""
        return None

    async def subscribe(self, uri: str, listener: Callable[[str], None]) -> Callable[[], None] | None:
        """Call `listener` with the URI whenever the source says that this resource changed.

        Returns:
            What ends it, or None where the source does not tell of changed resources.
        """
        return None

    async def refresh(self) -> None:
        """Forget what was cached, and try a source that is down at once."""
        self.touched()

    @property
    def forwards(self) -> bool:
        """Whether `call_tool` takes names that are not listed, because the other side hides tools."""
        return False

    async def nested_search(self, query: str, max_results: int, timeout_s: float) -> Mapping[str, Any] | None:
        """What the other side's own `tool_search` finds, as its decoded result; None for nothing.

        Takes at most `timeout_s` seconds and never raises.
        """
        return None

    def issues(self) -> Sequence[Issue]:
        """What a person should know about the source and single tools of it, beside `error`."""
        return ()

    def withheld(self) -> Mapping[str, str]:
        """Tools that wait for trust: their offered names, and the path `lmtb trust` wants."""
        return {}

    def status(self) -> Mapping[str, Any]:
        """Members of its own for health and status: pid, restarts, last lines of stderr …"""
        return {}

    def watch(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever tools, state or issues may have changed. The registry does this once."""
        self._listener = listener

    def touched(self) -> None:
        """Tell whoever watches that something may have changed."""
        self.revision += 1
        if self._listener is not None:
            self._listener()

    @abstractmethod
    async def close(self) -> None:
        """End everything the source started. Idempotent; in bounded time."""
