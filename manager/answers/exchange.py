"""A request with what is needed to answer it, and the kinds of replies to it.

`relay/writer.py` writes a reply as HTTP; nothing here depends on sockets or frameworks.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from manager.forwarding.answer import Answer
from manager.http.stream_endings import StreamEndings
from manager.routing.state.clients import RequestRecord
from manager.routing.state.session_table import Session
from manager.routing.workspace.resolution import Claims, WorkspaceSource
from manager.supervision.workspaces import Workspace
from protocol import headers, jsonrpc, names
from protocol.errors import Refusal
from protocol.inbound import Inbound
from protocol.versions import Era


class Located(msgspec.Struct, frozen=True, gc=False):
    """The workspace of a request, and the claim that decided it."""

    workspace: Workspace
    source: WorkspaceSource

    @property
    def is_pure(self) -> bool:
        """Whether the URL or header addresses the workspace alone, without the manager's own tools."""
        return self.is_in_url or self.source is WorkspaceSource.HEADER

    @property
    def implied_workspace(self) -> str | None:
        """Id of the workspace if a session uses it without a handshake."""
        return self.workspace.id if self.is_pure or self.source is WorkspaceSource.ROOTS else None

    @property
    def is_in_url(self) -> bool:
        """Whether the URL alone names the workspace, so that its answers can be cached by URL."""
        return self.source is WorkspaceSource.PATH or self.source is WorkspaceSource.QUERY


@dataclass(frozen=True, slots=True)
class Unlocated:
    """No claim gave a workspace. `problem` tells what was wrong with an ambient claim."""

    problem: Refusal | None = None


@dataclass(slots=True)
class Exchange:
    """A request with what is needed to answer it.

    Attributes:
        message: the request itself (never a notification or a response).
        claims: what it says about its workspace.
        accepts_json, accepts_events: which forms of answer the client takes.
        passed_headers: the client's headers that cross to the workspace server.
        passed_query: query string for the workspace server (tool mode), with its question mark, or empty.
        session: the session it belongs to, None for a stateless request.
        headers: response headers collected on the way.
        is_as_is: whether the client is to meet a server behind the workspace as it is, because its URL means
            the workspace alone.
        seen: what is remembered of it for the table of clients.
        begun: monotonic time when its work began: at its arrival, or after the client's input.
    """

    inbound: Inbound
    message: jsonrpc.Request
    claims: Claims
    accepts_json: bool = True
    accepts_events: bool = False
    passed_headers: tuple[tuple[bytes, bytes], ...] = ()
    passed_query: str = ""
    session: Session | None = None
    headers: dict[str, str] = field(default_factory=dict)
    is_as_is: bool = False
    seen: RequestRecord | None = None
    begun: float | None = None

    @property
    def is_modern(self) -> bool:
        """Whether the request is stateless (MCP 2026-07-28)."""
        return self.inbound.era is Era.MODERN

    @property
    def params(self) -> Mapping[str, msgspec.Raw]:
        """The parameters' members as the bytes that came."""
        return self.inbound.params

    @property
    def is_tool_call(self) -> bool:
        """Whether a refusal can be a tool result that a model reads."""
        return self.message.method == names.TOOLS_CALL

    @property
    def progress_token(self) -> msgspec.Raw | None:
        """The client's token for progress notifications, as the bytes that came."""
        return self.inbound.meta.get("progressToken")

    def tells(self, claims: Claims) -> None:
        """Replace the claims by those that include the client's roots."""
        self.claims = claims
        if self.seen is not None:
            self.seen.claims = claims

    def decided(self, located: Located | Unlocated) -> None:
        """Record how the workspace was decided, in the response headers, too."""
        self.is_as_is = isinstance(located, Located) and located.is_in_url
        source = located.source if isinstance(located, Located) else WorkspaceSource.NONE
        self.headers[headers.WORKSPACE_SOURCE] = source.value
        if isinstance(located, Located):
            self.headers[headers.WORKSPACE_ID] = located.workspace.id
        if self.session is not None:
            self.session.source = source.value
            if isinstance(located, Located) and located.implied_workspace is not None:
                self.session.implied_workspace = located.implied_workspace


@dataclass(frozen=True, slots=True)
class Plain:
    """A complete answer: one JSON-RPC message, or nothing (202).

    `lacks_workspace` is set if the answer would differ with a known workspace.
    """

    body: bytes = b""
    status: int = 200
    lacks_workspace: bool = False


@dataclass(frozen=True, slots=True)
class Events:
    """An answer in messages, each on one line: notifications and requests of ours, and last the response."""

    messages: AsyncGenerator[bytes]


@dataclass(frozen=True, slots=True)
class Ending:
    """How a stream without an end of its own ends: when `endings` say so, with the response `farewell`."""

    endings: StreamEndings
    farewell: bytes


@dataclass(frozen=True, slots=True)
class Quiet:
    """An event stream with this one message, on which nothing follows until it is ended."""

    message: bytes
    ending: Ending


@dataclass(frozen=True, slots=True)
class Relayed:
    """A workspace server's answer, which is relayed as it comes.

    Where the server asks for something first, `again` sends the request once more, with further parameters;
    `give_up` tells the server that this will not happen, with the `requestState` it gave.
    """

    answer: Answer
    again: Callable[[Mapping[str, msgspec.Raw]], Awaitable[Answer | Refusal]]
    give_up: Callable[[msgspec.Raw], Awaitable[None]]
    ending: Ending | None = None


Reply = Plain | Events | Relayed
AnyReply = Reply | Quiet
"""Replies including those of stateless requests only."""
