"""Creates the exchange of a request from its metadata and its message.

It only reads claims, and says whether the client has to be asked where it works;
`routing/workspace/resolution.py` decides what counts.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.inbound import Inbound
from lm_tools_bridge.protocol.internal.client_traits import ClientTraits
from lm_tools_bridge.protocol.internal.request_state import workspace_of
from lm_tools_bridge.protocol.jsonrpc import Request
from lm_tools_bridge.protocol.roots import declares_roots
from lm_tools_bridge.protocol.versions import Era
from manager.answers.exchange import Exchange
from manager.routing.client_needs import needs_of
from manager.routing.client_profiles import ClientProfiles
from manager.routing.request_heads.request_metadata import RequestMetadata
from manager.routing.state.session_table import Session
from manager.routing.workspace.resolution import Claims

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
