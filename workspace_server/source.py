"""What a tool source is: the words every origin of tools is described in.

A *source* (the built-ins, a script folder, a stdio server, a remote server) offers tools and calls them.
This file holds the shapes only. Merging sources is `catalog/registry.py`; calling is `calls/dispatch.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import msgspec

from protocol import jsonrpc
from protocol.errors import Refusal
from protocol.issues import Issue
from protocol.versions import Era

Visibility = Literal["native", "ondemand", "always"]
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
TaskUse = Literal["forbidden", "optional", "required"]
"""Whether a call may become a task; a required one has no other way (SEP-2663)."""
Default = Literal["enabled", "exposed", "off"]
"""What the policy makes of a source's tools when nobody says otherwise."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool as its source defines it.

    `definition` is the tool object of `tools/list` (name, description, inputSchema, …) with every member
    the source gave, unknown ones included; `name` repeats its name for lookups.

    Attributes:
        keywords: words for `tool_search` only.
        timeout_s: the longest one call may take; None for the server's default.
        asks: whether a person is asked before every call unless the user allowed it.
        rated: whether calls are rate limited.
        fingerprint: what exactly runs, so that an approval is for this content only.
        task: whether a call may go on as a task, for clients that know tasks.
    """

    name: str
    definition: Mapping[str, Any]
    visibility: Visibility = "native"
    keywords: tuple[str, ...] = ()
    timeout_s: float | None = None
    asks: bool = False
    rated: bool = False
    fingerprint: str = ""
    task: TaskUse = "forbidden"

    @property
    def description(self) -> str:
        """The description, or an empty string."""
        return str(self.definition.get("description") or "")

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments."""
        schema: Mapping[str, Any] = self.definition["inputSchema"]
        return schema


@dataclass(frozen=True, slots=True)
class Entry:
    """One prompt, resource or resource template as its source defines it.

    Attributes:
        name: what it is asked for by: a prompt's name, a resource's `uri`, a template's `uriTemplate`.
        definition: its object in the list with every member the source gave, unknown ones included.
        original: what the source itself calls it.
    """

    name: str
    definition: Mapping[str, Any]
    original: str


@dataclass(frozen=True, slots=True)
class Extras:
    """What a source offers beside tools, each in the order of its list."""

    prompts: tuple[Entry, ...] = ()
    resources: tuple[Entry, ...] = ()
    templates: tuple[Entry, ...] = ()


class ToolResult(msgspec.Struct, frozen=True):
    """A `CallToolResult` that we author ourselves.

     `text` becomes one text block in front of `blocks`; `structured` becomes `structuredContent`, any JSON
     value. `verbatim`: the text is content somebody asked for and keeps every character that can be sent
    .
    """

    text: str
    structured: Any = None
    is_error: bool = False
    blocks: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class RpcError:
    """A third party's JSON-RPC error, which its caller gets unchanged. `data` is its JSON text."""

    code: int
    message: str
    data: msgspec.Raw | None = None


class ToolError(Exception):
    """A tool could not do what was asked; the message is written for the model that called it.

    `structured` is what a machine should see of it (pointer, cause, candidates …).
    """

    def __init__(self, message: str, structured: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.structured = structured


class InvalidArguments(Exception):
    """Arguments that fit the schema but not the world (a path outside the workspace, a bad glob).

    `pointer` is the JSON pointer of the offending argument, e.g. `/filePath`.
    """

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{pointer}: {message}")
        self.pointer = pointer
        self.message = message


class Toolbox(Protocol):
    """The tools of the workspace as one call may use them: with the rights of its caller."""

    async def listed(self) -> list[Mapping[str, Any]]:
        """The definitions `tools/list` would show."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """`{"result": …}` or `{"error": …}`, as `tools/call` would answer; `tool_search` is a tool, too."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a server said of itself when a session with it was opened; texts are its own, not cleaned."""

    era: Era
    revision: str
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    server_info: Mapping[str, Any] = field(default_factory=dict)
    instructions: str | None = None


Notify = Callable[[str, Mapping[str, Any]], Awaitable[None]]


async def unheard(method: str, params: Mapping[str, Any]) -> None:
    """The notifications of a call nobody listens to."""


Ask = Callable[[str, msgspec.Raw], Awaitable[msgspec.Raw | RpcError]]
"""Puts a request (`elicitation/create`, `sampling/createMessage`, `roots/list`) to the caller of a call.

Takes its method, and its parameters as JSON text, empty when absent. Gives its result as JSON text, or
why there is none."""


async def nobody(method: str, params: msgspec.Raw) -> msgspec.Raw | RpcError:
    """The answer where there is no caller who could be asked."""
    return RpcError(jsonrpc.METHOD_NOT_FOUND, f"{method[:100]} is not offered here")


CALL_ENDED: Final = RpcError(jsonrpc.INTERNAL_ERROR, "the call this is about has ended")
"""The answer where the call has its outcome already: the question was about another one."""


def never_parked() -> bool:
    """The call of a caller who stays until there is an outcome."""
    return False


NO_ARGUMENTS: Final = msgspec.Raw(b"{}")


class CallContext(msgspec.Struct, frozen=True):
    """What a call knows beside its decoded arguments.

    Attributes:
        notify: sends one notification to the caller of exactly this call, before its result.
        ask: asks the caller of exactly this call something; takes as long as a person takes.
        is_parked: whether its caller was asked something and has gone to find an answer; it may never return.
        arguments: the JSON text of the arguments; a third party gets these bytes.
        params: the other members of the request's parameters as JSON text (`_meta`, `inputResponses`, …).
        caller: who calls, as far as that is known: the same text for all calls of one session.
        client: name of the calling program, from its `clientInfo`; may be empty.
        capabilities: what the calling client declared.
        toolbox: the tools a script may call; None where the depth is used up.
    """

    notify: Notify = unheard
    ask: Ask = nobody
    is_parked: Callable[[], bool] = never_parked
    arguments: msgspec.Raw = NO_ARGUMENTS
    params: Mapping[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    caller: str = ""
    client: str = ""
    capabilities: Mapping[str, Any] = msgspec.field(default_factory=dict)
    toolbox: Toolbox | None = None

    @property
    def meta(self) -> Mapping[str, msgspec.Raw]:
        """The members of the request's `_meta`, each as JSON text; empty when there is none."""
        raw = self.params.get("_meta")
        return {} if raw is None else msgspec.json.decode(raw, type=dict[str, msgspec.Raw])

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Send one progress notification, or do nothing when the caller gave no token."""
        token = self.meta.get("progressToken")
        if token is None:
            return
        members = {"progress": done, "total": total, "message": message}
        present = {key: value for key, value in members.items() if value is not None}
        await self.notify("notifications/progress", {"progressToken": token, **present})


CallOutcome = ToolResult | msgspec.Raw | RpcError | Refusal
"""What a call gives: a result we author, the bytes of a third party's `CallToolResult`, passed on untouched,
its JSON-RPC error, or our refusal."""


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
        immediate: own names of tools that `call_now` runs.
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

    def call_now(self, name: str, arguments: Mapping[str, Any]) -> CallOutcome:
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

    async def greeting(self) -> Greeting | None:
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
