"""Defines the interface of a source: the built-in tools, a script folder, or another MCP server."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.protocol.errors import RETRY_STEP, Reason, Refusal
from lm_tools_bridge.protocol.internal.source_states import STATES
from lm_tools_bridge.protocol.issues import Issue
from lm_tools_bridge.protocol.names import Era
from workspace_server.call_context import CallContext
from workspace_server.results import clean_text
from workspace_server.tool import CallOutcome, RpcError, SourceOfferings, Tool

# About what a server takes that is started again.
BACKOFF_MS: Final = 1000
LOOPING_MS: Final = 60_000
"""When a retry makes sense, if the source does not say. A crash looping server starts once a minute."""
_ASK: Final = "ask the user to"
_STATES: Final[Mapping[str, tuple[str, int | None]]] = {
    "backoff": ("", BACKOFF_MS),
    "crash_looping": ("", LOOPING_MS),
    "auth_required": (
        f"{_ASK} set a valid token, or to sign in (lmtb doctor says which); a retry does not help",
        None,
    ),
    "failed": (
        f"{_ASK} correct its configuration; lmtb servers shows what is wrong. A retry alone does not help",
        None,
    ),
    "disabled": (
        f"{_ASK} enable it in its configuration file (enabled = true); a retry alone does not help",
        None,
    ),
}
"""State -> the next step where a person is needed, milliseconds until a retry makes sense."""
NOT_RUNNING: Final = frozenset(_STATES)
"""States in which a source answers no call."""


def not_running(source: str, state: str, error: str | None, retry_after_ms: int | None = None) -> Refusal:
    """The refusal for a call of a source in one of the states in which it answers no call.

    Args:
        source: its id.
        state: backoff, crash_looping, auth_required, failed or disabled.
        error: why it is in this state, if that is known.
        retry_after_ms: when it is tried again, if that is known.
    """
    step, usual_ms = _STATES[state]
    cause = f": {clean_text(error)}" if error else ""
    text = f'Source "{source}" {STATES[state].words} ({state}){cause}'
    again = None if usual_ms is None else retry_after_ms or usual_ms
    details = {"source": source, "state": state, "error": clean_text(error or f"it is {state}")}
    step = step or f"{RETRY_STEP}; lmtb servers shows the state of the source"
    return Refusal(Reason.SOURCE_UNAVAILABLE, text, step, "no", again, details)


SourceKind = Literal["builtin", "script", "skill", "stdio", "remote", "language-server", "editor"]
SourceState = Literal[
    "idle",  # not started; its next use starts it
    "starting",  # has not answered yet
    "connecting",  # a remote server that has not answered yet
    "ready",
    "backoff",  # ended or failed; retried automatically
    "crash_looping",  # ended too often; retried once a minute
    "auth_required",  # waits for the user's credentials
    "failed",  # not retried automatically
    "pending_trust",  # waits for `lmtb trust`
    "disabled",
]
"""The states that a source is in; `lm_tools_bridge/protocol/internal/source_states.py` says what each
means."""
Default = Literal["enabled", "exposed", "off"]
"""What the policy does with a source's tools without a setting for them."""


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """What a server says about itself in the handshake, with its own texts, not cleaned."""

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
        default: what the policy does with its tools without a setting for them.
        include: patterns (`fnmatch`, case-sensitive) of the source's own tool names; empty for all.
        exclude: patterns of names that are left out; takes precedence over `include`.
        keywords: words by which `tool_search` finds every tool of the source.
        state: whether the source answers.
        error: why it does not answer, for a person; None while all is well.
        instructions: what the server behind it says of itself for models, as it came, if that is known.
        stale: whether the source knows that its list may be out of date.
        trust_path: the path to trust, in the state `pending_trust`.
        trust_hint: how the user prevents that it waits for trust again, if that is known.
        project_file: the file of the project that configures the source, relative to its root, if any.
        timeout_s: limit of one request in seconds; None for the server's default.
        limit_setting: the setting that limits its calls, and the file of it; empty if there is none.
        nowait_tools: the source's own names of the tools that `call_nowait` runs.
        predecessors: the tasks that close sources of the same id, which this one replaces.
        revision: a counter that rises whenever tools, state or issues may have changed.
        known_until: the loop's time until which the revision tells of every change of its tools; later,
            `cached_tools` is asked for each call.
        has_apps: whether the server behind it said that it has apps (MCP Apps).
        is_self_contained: whether its tools ask their callers nothing, call no other tools, and never answer
            with input requests or tasks of their own.
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
    instructions: str | None = None
    stale: bool = False
    trust_path: str = ""
    trust_hint: str = ""
    project_file: str | None = None
    timeout_s: float | None = None
    limit_setting: str = ""
    nowait_tools: frozenset[str] = frozenset()
    revision: int = 0
    known_until: float = -math.inf
    is_self_contained: bool = False
    has_apps: bool = False
    predecessors: tuple[asyncio.Task[None], ...] = ()

    async def wait_for_predecessors(self) -> None:
        """Wait until the sources that this one replaces have ended; call this before a process is started."""
        if self.predecessors:
            await asyncio.wait(self.predecessors)
            self.predecessors = ()

    @property
    def shared_pid(self) -> int | None:
        """The process that serves all clients, where the source is such a process and it runs."""
        return None

    @property
    def retry_after_ms(self) -> int | None:
        """When a source that is down is tried again, where that is known."""
        return None

    @property
    def part_error(self) -> str | None:
        """Why a part of it does not work while it answers; None while all is well."""
        return None

    @property
    def signs_in(self) -> bool | None:
        """Whether a person signs in to it in a browser; None for a source without credentials."""
        return None

    _listener: Callable[[], None] | None = None

    @abstractmethod
    async def list_tools(self) -> Sequence[Tool]:
        """All tools of the source, from its cache where that saves time. Never raises: see `state`."""

    def cached_tools(self) -> Sequence[Tool] | None:
        """What `list_tools` would return without waiting; None if it would have to wait."""
        return None

    @abstractmethod
    async def call_tool(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> CallOutcome:
        """Run the tool by its own (not namespaced) name.

        The caller enforces the deadline: cancelling the task cancels the work, and leaves nothing behind that
        the call started.

        Raises:
            ToolError: the tool failed in a way its caller should read.
            InvalidArguments: an argument cannot be served.
        """

    def limit_setting_of(self, name: str) -> str:
        """The setting that limits calls of this tool, and the file of it; empty if there is none."""
        return self.limit_setting

    def call_nowait(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
        """As `call_tool`, for one of the `nowait_tools`, which never wait and never ask the caller."""
        raise NotImplementedError

    def offerings(self) -> SourceOfferings:
        """The known prompts, resources and templates; `list_tools` waits a moment for them."""
        return SourceOfferings()

    async def forward(
        self, method: str, params: Mapping[str, msgspec.Raw], context: CallContext
    ) -> CallOutcome:
        """Forward any request to the source on behalf of a client, with the source's own names and cursors.

        Deadline and cancellation are the caller's, as for `call_tool`. Failures of the other side are
        outcomes, not exceptions.

        Args:
            method: e.g. `prompts/get`.
            params: its parameters, without `_meta`.
            context: the call's; its `params` hold `_meta`.
        """
        return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{self.id} has no method {method}")

    async def handshake_result(self) -> HandshakeResult | None:
        """What the server behind the source says about itself; None without a server or an answer."""
        return None

    async def subscribe(self, uri: str, listener: Callable[[str], None]) -> Callable[[], None] | None:
        """Call `listener` with the URI whenever the source reports a change of this resource.

        Returns:
            A function that ends the subscription, or None if the source does not support subscriptions.
        """
        return None

    async def check_files(self) -> None:  # noqa: B027  most sources have no such files
        """Check files that only requests about resources and skills depend on. Never raises."""

    def directory(self, uri: str) -> Sequence[Mapping[str, Any]] | None:
        """The children of one of its directories, as `Resource` objects sorted by URI; else None."""
        return None

    @property
    def is_shown(self) -> bool:
        """Whether lists of sources show it; one that is there in case of need is not shown before."""
        return True

    def withdrawn(self, name: str) -> str | None:
        """Why a tool that the source offered before is not offered now; None if it never was, or is."""
        return None

    def pending_names(self) -> Sequence[str]:
        """The names of what waits for trust and is no tool."""
        return ()

    async def refresh(self) -> None:
        """Drop what is cached, and try a source that is down at once."""
        self.notify_changed()

    async def restart(self) -> str:
        """End what the source runs, whatever state it is in, and start it anew; list its tools again.

        Calls that run in it end. Takes seconds at most: a slow start goes on in the background.

        Returns:
            What was done, for a person, after the source's name and a colon.
        """
        await self.refresh()
        return "it runs nothing; its tools were read again"

    @property
    def accepts_unlisted(self) -> bool:
        """Whether `call_tool` accepts names that are not listed, because the server hides tools."""
        return False

    async def nested_search(self, query: str, max_results: int, timeout_s: float) -> Mapping[str, Any] | None:
        """The decoded result of the server's own `tool_search`; None for nothing.

        Takes at most `timeout_s` seconds and never raises.
        """
        return None

    def issues(self) -> Sequence[Issue]:
        """Problems of the source and of single tools, besides `error`."""
        return ()

    def withheld(self) -> Mapping[str, str]:
        """Tools that wait for trust: from offered name to the path for `lmtb trust`."""
        return {}

    def status(self) -> Mapping[str, Any]:
        """Members for health and status: pid, restarts, last lines of stderr …"""
        return {}

    def watch(self, listener: Callable[[], None]) -> None:
        """Call `listener` whenever tools, state or issues may have changed. The registry calls this once."""
        self._listener = listener

    def notify_changed(self) -> None:
        """Notify the listener that something may have changed."""
        self.revision += 1
        if self._listener is not None:
            self._listener()

    @abstractmethod
    async def close(self) -> None:
        """End everything the source started, in bounded time. Idempotent."""
