"""Negotiates the protocol revision with a server.

A program gets `initialize` first, and `server/discover` if it refuses: some programs exit on an unknown
request before `initialize`. Over HTTP the order is reversed, so that a server that supports both is used
statelessly, where every request carries the client's capabilities.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from lm_tools_bridge.protocol import apps_extension, names
from lm_tools_bridge.protocol.names import (
    LATEST_LEGACY,
    LATEST_MODERN,
    LEGACY_REVISIONS,
    MODERN_REVISIONS,
    Era,
)
from workspace_server.results import clean_text
from workspace_server.source import HandshakeResult
from workspace_server.sources.mcp.failures import SessionFailed, TransportEnded, Unavailable
from workspace_server.sources.mcp.rpc.connection import InvalidResponseError, RpcConnection
from workspace_server.sources.mcp.rpc.messages import OUR_NAME, hop_meta
from workspace_server.sources.mcp.rpc.transport import Transport
from workspace_server.tool import RpcError

_CAPABILITIES: Final[Mapping[str, Any]] = {
    "roots": {},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
}
"""Declared for all clients; a client that lacks one refuses the request itself."""
_CAPABILITIES_WITH_APPS: Final = {**_CAPABILITIES, "extensions": apps_extension.CLIENT_EXTENSIONS}
"""The handshake with a server is made once for all clients, before one that shows apps may come. A server
must have an answer in words for the others, and lists leave out what only apps can use."""
_ASSUMED: Final[Mapping[str, Any]] = {"tools": {}, "prompts": {}, "resources": {}}
"""Capabilities of a server that cannot be asked for them; a list that it does not have is empty."""
PROBE_S: Final = 5.0
"""How long a server may take to answer `server/discover`; some never answer unknown methods."""


def listing_capabilities(offers_apps: bool) -> Mapping[str, Any]:
    """What requests declare to a stateless server that no single client makes: one list serves them all."""
    return {"extensions": apps_extension.CLIENT_EXTENSIONS} if offers_apps else {}


async def negotiate(
    rpc: RpcConnection,
    transport: Transport,
    version: str,
    limit: asyncio.Timeout,
    first: Era,
    *,
    offers_apps: bool = False,
) -> HandshakeResult:
    """Perform the whole handshake.

    Args:
        rpc: the connection.
        transport: the transport below it; gets the negotiated revision.
        version: of this product.
        limit: the time limit of the handshake, not entered yet.
        first: the era that is tried first.
        offers_apps: whether the server is told of clients that show apps.

    Raises:
        SessionFailed: the server refuses, supports no revision of ours, or did not answer.
    """
    began = asyncio.get_running_loop().time()
    try:
        async with limit:
            handshake_result, is_initialized = await _negotiate(rpc, version, first, offers_apps)
            transport.negotiated(handshake_result.era, handshake_result.revision)
            if is_initialized:
                await rpc.notify(names.INITIALIZED)
            return handshake_result
    except TimeoutError:
        limit_s = round((limit.when() or began) - began, 2)
        text = f"no answer to the handshake within {limit_s:g} s"
        raise SessionFailed(text, lines=rpc.early_lines) from None
    except SessionFailed:
        raise
    except Unavailable as failure:
        raise SessionFailed(
            failure.text, retry_after_ms=failure.retry_after_ms, lines=rpc.early_lines or None
        ) from failure
    except TransportEnded as end:
        raise SessionFailed(end.reason, lines=rpc.early_lines or None) from end
    finally:
        rpc.early_lines = None


async def _negotiate(
    rpc: RpcConnection, version: str, first: Era, offers_apps: bool
) -> tuple[HandshakeResult, bool]:
    """The handshake result, and whether `notifications/initialized` has to follow."""
    if (
        first is Era.MODERN
        and (handshake_result := await _try_discover(rpc, version, offers_apps)) is not None
    ):
        return handshake_result, False
    client = {"name": OUR_NAME, "version": version}
    capabilities = _CAPABILITIES_WITH_APPS if offers_apps else _CAPABILITIES
    params = {"protocolVersion": LATEST_LEGACY, "capabilities": capabilities, "clientInfo": client}
    answer = await _ask(rpc, names.INITIALIZE, params)
    if not isinstance(answer, RpcError):
        return _initialized(_object(answer)), True
    discovery = await _discover(rpc, version, offers_apps) if first is Era.LEGACY else answer
    if not isinstance(discovery, RpcError):
        return _modern(_object(discovery)), False
    if (assumed := await _try_list(rpc, version, offers_apps)) is not None:
        return assumed, False
    raise SessionFailed(f"refused the handshake: {clean_text(answer.message[:500])} ({answer.code})")


async def _try_discover(rpc: RpcConnection, version: str, offers_apps: bool) -> HandshakeResult | None:
    """The handshake result of a stateless server; None for any other.

    Servers answer a method that they do not know in many ways: any status, a page, nothing at all.
    """
    try:
        async with asyncio.timeout(PROBE_S):
            discovery = await _discover(rpc, version, offers_apps)
    except (TimeoutError, SessionFailed):
        return None
    except Unavailable as failure:
        if failure.undecided:
            return None
        raise
    if isinstance(discovery, RpcError):
        return None
    with suppress(SessionFailed):
        return _modern(_object(discovery))
    return None


async def _discover(rpc: RpcConnection, version: str, offers_apps: bool) -> msgspec.Raw | RpcError:
    meta = hop_meta(Era.MODERN, LATEST_MODERN, version, listing_capabilities(offers_apps))
    return await _ask(rpc, names.DISCOVER, {"_meta": meta})


async def _try_list(rpc: RpcConnection, version: str, offers_apps: bool) -> HandshakeResult | None:
    """The handshake result of a stateless server that has no `server/discover`; None for any other."""
    meta = hop_meta(Era.MODERN, LATEST_MODERN, version, listing_capabilities(offers_apps))
    try:
        tool_list = await _ask(rpc, names.TOOLS_LIST, {"_meta": meta})
    except Unavailable:
        return None
    if isinstance(tool_list, RpcError) or "tools" not in _object(tool_list):
        return None
    return HandshakeResult(Era.MODERN, LATEST_MODERN, _ASSUMED, {}, None)


async def _ask(rpc: RpcConnection, method: str, params: Mapping[str, Any]) -> msgspec.Raw | RpcError:
    try:
        return await rpc.request(rpc.next_id(), method, params)
    except InvalidResponseError:
        text = f"answered {method} with something that is no JSON"
        raise SessionFailed(text, lines=rpc.early_lines) from None


def _initialized(result: Mapping[str, Any]) -> HandshakeResult:
    """The answer to `initialize`; some servers that have no `server/discover` name a stateless revision."""
    revision = result.get("protocolVersion")
    if revision not in (*LEGACY_REVISIONS, *MODERN_REVISIONS):
        raise SessionFailed(f"speaks revision {clean_text(str(revision)[:40])}, which we do not")
    return HandshakeResult(
        Era.MODERN if revision in MODERN_REVISIONS else Era.LEGACY,
        str(revision),
        _mapping(result.get("capabilities")),
        _mapping(result.get("serverInfo")),
        _text(result.get("instructions")),
    )


def _modern(result: Mapping[str, Any]) -> HandshakeResult:
    offered = result.get("supportedVersions")
    spoken = [revision for revision in MODERN_REVISIONS if isinstance(offered, list) and revision in offered]
    if not spoken:
        raise SessionFailed(f"speaks revisions {clean_text(str(offered)[:200])}, which we do not")
    return HandshakeResult(
        Era.MODERN,
        spoken[-1],
        _mapping(result.get("capabilities")),
        _mapping(_mapping(result.get("_meta")).get(names.META_SERVER)),
        _text(result.get("instructions")),
    )


def _object(result: msgspec.Raw) -> Mapping[str, Any]:
    try:
        return _mapping(msgspec.json.decode(result))
    except (msgspec.DecodeError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
