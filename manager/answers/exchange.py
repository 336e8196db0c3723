"""A request with what is needed to answer it, how it is made, and who sent it.

A new exchange has the claims of its request, and says whether the client has to be asked where it works;
`routing/resolution.py` decides what counts. Nothing here depends on sockets or frameworks.

Who sent it is told to the table of clients and to the observer of calls. A call's origin is who called what,
from where, when, in which W3C trace context (Trace Context, Level 1).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.inbound import Inbound
from lm_tools_bridge.protocol.input_requests import declares_roots
from lm_tools_bridge.protocol.internal.client_traits import ClientTraits
from lm_tools_bridge.protocol.internal.request_state import workspace_of
from lm_tools_bridge.protocol.jsonrpc import Request
from lm_tools_bridge.protocol.names import ASSUMED_LEGACY, Era
from lm_tools_bridge.protocol.trace_context import BITS, NAME
from manager.call_observer import CallLabel, CallOrigin
from manager.routing.client_profiles import ClientProfiles, needs_of
from manager.routing.request_metadata import RequestMetadata
from manager.routing.resolution import WORDS, Claims, WorkspaceSource
from manager.routing.state.clients import Client, Peer, RequestRecord
from manager.routing.state.session_table import Session
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import folder_in


class Located(msgspec.Struct, frozen=True, gc=False):
    """The workspace of a request, and the claim that decided it.

    Attributes:
        folder: The folder that the client works in, relative to the workspace's root; empty for the root.
        addressed_by: The claim of the address that leads to some workspace, where another claim decided.
        overruled: What pointed elsewhere and was weaker, for people; empty if nothing did.
    """

    workspace: Workspace
    source: WorkspaceSource
    folder: str = ""
    addressed_by: WorkspaceSource | None = None
    overruled: str = ""

    @property
    def is_pure(self) -> bool:
        """Whether the URL or header addresses a workspace alone, without the manager's own tools."""
        return self.is_in_url or self._address is WorkspaceSource.HEADER

    @property
    def implied_workspace(self) -> str | None:
        """Id of the workspace if a session uses it without a handshake."""
        return self.workspace.id if self.is_pure or self.source is WorkspaceSource.ROOTS else None

    @property
    def is_in_url(self) -> bool:
        """Whether the URL names a workspace, so that the client sees that workspace as its server."""
        return self._address is WorkspaceSource.PATH or self._address is WorkspaceSource.QUERY

    @property
    def _address(self) -> WorkspaceSource:
        return self.addressed_by or self.source


class Unlocated(msgspec.Struct, frozen=True):
    """No claim led to a workspace. `problem` is the refusal of an ambient claim that failed."""

    problem: Refusal | None = None


class Exchange(msgspec.Struct):
    """A request with what is needed to answer it.

    Attributes:
        message: The request itself, never a notification or a response.
        claims: Its claims about its workspace.
        accepts_json, accepts_events: Which media types the client accepts.
        passed_headers: The client's headers that are forwarded to the workspace server.
        passed_query: Query string for the workspace server (tool mode) with its question mark, or empty.
        session: Its session; None for a stateless request.
        key: Its id as its session knows it (`jsonrpc.id_key`); empty without a session.
        headers: Response headers, added while it is answered.
        is_as_is: Whether a workspace with a single MCP server is passed through unchanged, because the URL
            names the workspace.
        has_plain_names: Whether the client takes no names of tools with a dot.
        is_pure: Whether the URL or a header addresses the workspace alone (`Located.is_pure`).
        server: The only MCP server of the workspace that the URL names; empty for all of it.
        folder: The folder of the workspace that the client works in (`Located.folder`).
        note: What the model is told about the workspace of its call; empty if the address names it, too.
        has_sub_agents: Whether the client's sub-agents may send calls over its connection.
        wants_roots: Whether the client has to be asked for its roots before the workspace is decided.
        user_agent: What the client's HTTP library says of it; anybody can invent it.
        seen: Its record in the table of clients.
        begun: Monotonic time when its work began: at its arrival, or after the client's input.
        observed_client: Who sent it; None if nobody observes calls.
        asked_s: Seconds that the client took for the input that this request is repeated with.
        made_trace: The number of the trace context that was made for it (`make_traceparent`); 0 for none.
        is_forwarded: Whether it was sent to a workspace server: then its `ForwardedCall` tells the observer.
    """

    inbound: Inbound
    message: jsonrpc.Request
    claims: Claims
    accepts_json: bool = True
    accepts_events: bool = False
    passed_headers: tuple[tuple[bytes, bytes], ...] = ()
    passed_query: str = ""
    session: Session | None = None
    key: bytes = b""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    is_as_is: bool = False
    has_plain_names: bool = False
    is_pure: bool = False
    server: str = ""
    folder: str = ""
    note: str = ""
    has_sub_agents: bool = False
    wants_roots: bool = False
    user_agent: str = ""
    seen: RequestRecord | None = None
    begun: float | None = None
    observed_client: Client | None = None
    asked_s: float = 0.0
    made_trace: int = 0
    is_forwarded: bool = False

    @property
    def is_modern(self) -> bool:
        """Whether the request is stateless (MCP 2026-07-28)."""
        return self.inbound.era is Era.MODERN

    @property
    def params(self) -> Mapping[str, msgspec.Raw]:
        """The members of `params`, as the bytes received."""
        return self.inbound.params

    @property
    def client_name(self) -> str | None:
        """The name in the `clientInfo` of the session, of `initialize`, or of the stateless request."""
        return self.client[0]

    @property
    def client(self) -> tuple[str | None, str | None]:
        """Name and version in the `clientInfo` of the session, of `initialize` or of this request."""
        if self.session is not None:
            return self.session.client_name, self.session.client_version
        info = self.inbound.meta.get(names.META_CLIENT) or self.params.get("clientInfo")
        members = {} if info is None else jsonrpc.members_of(info)
        name, version = members.get("name"), members.get("version")
        return (
            None if name is None else jsonrpc.text_of(name),
            None if version is None else jsonrpc.text_of(version),
        )

    @property
    def is_tool_call(self) -> bool:
        """Whether it is a `tools/call`, whose refusal can be a tool result for the model."""
        return self.message.method == names.TOOLS_CALL

    @property
    def progress_token(self) -> msgspec.Raw | None:
        """The client's token for progress notifications, as the bytes received."""
        return self.inbound.meta.get("progressToken")

    def replace_claims(self, claims: Claims) -> None:
        """Replace the claims by those that include the client's roots."""
        self.claims = claims
        self.wants_roots = False
        if self.seen is not None:
            self.seen.claims = claims

    def decided(self, located: Located | Unlocated) -> None:
        """Record the workspace and the claims that decided it, also in the response headers."""
        self.is_as_is = isinstance(located, Located) and located.is_in_url
        self.is_pure = isinstance(located, Located) and located.is_pure
        source = located.source if isinstance(located, Located) else WorkspaceSource.NONE
        self.headers[headers.WORKSPACE_SOURCE] = source.value
        for name in (headers.WORKSPACE_OVERRULED, headers.WORKSPACE_CONTRADICTION):
            self.headers.pop(name, None)
        if isinstance(located, Located):
            self._decided_for(located)
        else:
            self._undecided(located)
        if self.session is not None:
            self.session.source = source.value

    def _undecided(self, unlocated: Unlocated) -> None:
        problem = unlocated.problem
        if problem is not None and problem.reason is Reason.CONFLICTING_WORKSPACE:
            self.headers[headers.WORKSPACE_CONTRADICTION] = headers.encode_value(problem.message)
        if self.session is not None:
            self.session.last_workspace = None

    def _decided_for(self, located: Located) -> None:
        self.folder = located.folder
        if located.source is WorkspaceSource.SESSION and self.session is not None:
            self.folder = folder_in(located.workspace, self.session.cwd or "")
        self.headers[headers.WORKSPACE_ID] = located.workspace.id
        self.note = ""
        if located.overruled:
            by, root = WORDS.get(located.source, located.source.value), located.workspace.root
            self.note = f"This is from the project {root}: {by} decided. Overruled: {located.overruled}."
            self.headers[headers.WORKSPACE_OVERRULED] = headers.encode_value(located.overruled)
        if self.session is not None:
            self.session.last_workspace = located.workspace.id
            if located.implied_workspace is not None:
                self.session.implied_workspace = located.implied_workspace


_NOTHING: Final = msgspec.Raw(b"{}")
_NO_WORKSPACE: Final = frozenset({names.INITIALIZE, names.PING, names.SET_LEVEL, *names.HANDSHAKE_NAMES})
"""Requests in a session whose answer does not depend on the evidence for its workspace."""
_OWN_TOOL_SEARCH: Final = (
    headers.CLIENT_TRAITS.encode(),
    ClientTraits(own_tool_search=True).encode().encode(),
)
MAX_FOLDER: Final = 16 * 1024
"""Largest folder name in a body in bytes, the size of a request head. Longer ones are ignored."""
MAX_WORKSPACE: Final = 256
"""Longest id of a workspace in a `requestState`, in characters. Ours have 64 at most; the text comes from a
client."""


def exchange_of(
    metadata: RequestMetadata,
    inbound: Inbound,
    message: Request,
    session: Session | None,
    profiles: ClientProfiles,
) -> Exchange:
    """Create the exchange of a request."""
    claims, codex, state = claims_of(metadata, session), _sandbox_cwd(inbound), _answered_workspace(inbound)
    if codex is not None or state is not None:
        claims = replace(claims, codex=codex, state=state)
    if session is not None:
        session.sent_cwd = sent_cwd(claims)
    exchange = Exchange(
        inbound,
        message,
        claims,
        accepts_json=metadata.accepts_json,
        accepts_events=metadata.accepts_events,
        passed_headers=metadata.passed if inbound.era is Era.MODERN else metadata.passed_legacy,
        passed_query=metadata.passed_query,
        session=session,
        key=b"" if session is None else jsonrpc.id_key(message.id),
        user_agent=metadata.fields.get("user-agent", ""),
        server=metadata.server,
    )
    if exchange.is_tool_call:
        profile = profiles.of(*exchange.client)
        exchange.passed_headers += needs_of(profile)
        if profile.own_tool_search:  # only texts about our own search depend on it
            exchange.passed_headers = (*exchange.passed_headers, _OWN_TOOL_SEARCH)
        if profile.roots_change == "silently":
            exchange.has_sub_agents = not claims.names_workspace()
        exchange.wants_roots = _wants_roots(exchange, changes_silently=exchange.has_sub_agents)
    elif message.method not in _NO_WORKSPACE:
        exchange.wants_roots = _wants_roots(exchange, changes_silently=False)
    if message.method == names.TOOLS_LIST:
        exchange.has_plain_names = profiles.of(*exchange.client).plain_names
    return exchange


def _wants_roots(exchange: Exchange, *, changes_silently: bool) -> bool:
    """Whether the client has to be asked for its roots before the workspace of this request is decided.

    A stateless client is asked with each tool call: nothing else carries its roots. A session client is asked
    once, and once more with each call if its roots are known to change without a notification.
    """
    session = exchange.session
    if session is not None:
        can_ask = session.tells_roots and exchange.accepts_events
        is_due = can_ask and (session.roots is None or changes_silently)
    else:
        can_ask = exchange.is_modern and exchange.is_tool_call
        capabilities = exchange.inbound.meta.get(names.META_CAPABILITIES, _NOTHING)
        is_due = can_ask and declares_roots(capabilities)
    is_handshake = exchange.inbound.name in names.HANDSHAKE_NAMES
    return is_due and not is_handshake and not exchange.claims.names_workspace()


def claims_of(metadata: RequestMetadata, session: Session | None) -> Claims:
    """The claims of a request's URL and headers, and of its session."""
    if session is None:
        return metadata.claims
    sent = metadata.claims
    return Claims(
        path=sent.path,
        query=sent.query,
        header=sent.header,
        session=session.workspace,
        roots=session.roots,
        pinned=sent.pinned,
    )


def sent_cwd(claims: Claims) -> str | None:
    """The folder that a request names in query, header or `_meta`."""
    sent = claims.query or claims.header or claims.codex
    return None if sent is None else sent.encode("utf-8", "replace").decode()


def _sandbox_cwd(inbound: Inbound) -> str | None:
    """The working folder of Codex, which it sends with tool calls to servers that announce the capability."""
    state = inbound.meta.get(names.CODEX_SANDBOX)
    folder = jsonrpc.members_of(state).get("sandboxCwd") if state is not None else None
    return None if folder is None or len(folder) > MAX_FOLDER else jsonrpc.text_of(folder)


def _answered_workspace(inbound: Inbound) -> str | None:
    """Id of the workspace whose input requests this request answers."""
    state = inbound.params.get("requestState")
    text = None if state is None else jsonrpc.text_of(state)
    workspace = None if text is None else workspace_of(text)
    return workspace if workspace is None or len(workspace) <= MAX_WORKSPACE else None


_HEADER: Final = NAME.encode()
_random_bits: Final = random.Random(os.urandom(32)).getrandbits  # noqa: S311  unique, not secret
make_trace_number: Final[Callable[[], int]] = partial(_random_bits, BITS)
"""Draws the number of a new trace context (`make_traceparent`). Should it ever be 0, none is sent."""


def brought_trace(exchange: Exchange) -> str:
    """The `traceparent` that a call brought: in its `_meta`, else in its headers; empty if it has none."""
    own = exchange.inbound.meta.get(NAME)
    if own is not None:
        return jsonrpc.text_of(own) or ""
    sent = (value for name, value in exchange.passed_headers if name.lower() == _HEADER)
    return next(sent, b"").decode("latin-1")


OBSERVED_METHODS: Final = frozenset(
    {names.TOOLS_CALL, names.PROMPTS_GET, names.RESOURCES_READ, names.COMPLETE}
)
"""The methods whose requests are calls, of which an observer is told."""
_NAMED: Final = frozenset({names.TOOLS_CALL, names.PROMPTS_GET})
"""Those with a name that is told. The address of a resource may say as much as its content."""


def origin_of(exchange: Exchange, params: Mapping[str, msgspec.Raw] | None = None) -> CallOrigin | None:
    """The origin of a client's call; None if nobody observes it.

    Args:
        params: the parameters of the call in `callTool`, if that was unwrapped.
    """
    client, method = exchange.observed_client, exchange.message.method
    if client is None or method not in OBSERVED_METHODS:
        return None
    call_params = exchange.params if params is None else params
    name = None
    if method in _NAMED:
        name = exchange.inbound.name if params is None else jsonrpc.text_of(params.get("name", b"null"))
    label = CallLabel(
        client.info,
        client.era,
        client.revision,
        exchange.headers.get(headers.WORKSPACE_ID, ""),
        method,
        name or "",
        "",
        exchange.headers.get(headers.WORKSPACE_SOURCE, ""),
    )
    session = exchange.session
    sent = len(jsonrpc.bytes_of(call_params["arguments"])) if "arguments" in call_params else 0
    return CallOrigin(
        label,
        None if session is None else session.id,
        exchange.begun or time.monotonic(),
        sent,
        "" if exchange.made_trace else brought_trace(exchange),
        exchange.made_trace,
        exchange.asked_s,
    )


MAX_INFO: Final = 1024
"""Largest `clientInfo` in bytes that is kept; a larger one is dropped."""
MAX_METHOD: Final = 100
"""Characters of a method that the table of clients keeps: the longest known one, the handshake's, has 39, and
a client can send any text."""


@lru_cache(maxsize=256)
def _info(name: str | None, version: str | None) -> bytes:
    return jsonrpc.dumps({"name": name, "version": version})


def client_record(exchange: Exchange, now: float, peer: Peer | None = None) -> tuple[Client, RequestRecord]:
    """The client's row in the table of clients, and the record of its request at monotonic time `now`.

    Args:
        peer: the connection that the request came from, which its session remembers; None if it has no
            addresses.
    """
    session = exchange.session
    if session is None:
        client_info = exchange.inbound.meta.get(names.META_CLIENT)
        info = b"" if client_info is None else jsonrpc.bytes_of(client_info)
        revision = exchange.inbound.revision or ASSUMED_LEGACY
    else:
        info = _info(session.client_name, session.client_version)
        revision = session.revision
    client = Client(info if len(info) <= MAX_INFO else b"", exchange.inbound.era.value, revision)
    if session is not None and peer is not None:
        session.peer = peer
    method = exchange.message.method[:MAX_METHOD]
    return client, RequestRecord(now, method, exchange.claims, exchange.headers, peer=peer)
