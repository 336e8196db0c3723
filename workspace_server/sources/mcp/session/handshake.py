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

from protocol import names
from protocol.versions import LATEST_LEGACY, LATEST_MODERN, LEGACY_REVISIONS, MODERN_REVISIONS, Era
from workspace_server.results import clean_text
from workspace_server.source import HandshakeResult
from workspace_server.sources.mcp.failures import SessionFailed, TransportEnded, Unavailable
from workspace_server.sources.mcp.session.messages import OUR_NAME, hop_meta
from workspace_server.sources.mcp.session.rpc import InvalidResponseError, RpcConnection
from workspace_server.sources.mcp.session.transport import Transport
from workspace_server.tool import RpcError

_CAPABILITIES: Final[Mapping[str, Any]] = {
    "roots": {},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
}
"""Declared for all clients; a client that lacks one refuses the request itself."""
PROBE_S: Final = 5.0
"""How long a server may take to answer `server/discover`; some never answer unknown methods."""


async def negotiate(
    rpc: RpcConnection, transport: Transport, version: str, timeout_s: float, first: Era
) -> HandshakeResult:
    """Perform the whole handshake.

    Args:
        rpc: the connection.
        transport: the transport below it; gets the negotiated revision.
        version: of this product.
        timeout_s: limit of the handshake in seconds.
        first: the era that is tried first.

    Raises:
        SessionFailed: the server refuses, supports no revision of ours, or did not answer.
    """
    try:
        async with asyncio.timeout(timeout_s):
            handshake_result = await _negotiate(rpc, version, first)
            transport.negotiated(handshake_result.era, handshake_result.revision)
            if handshake_result.era is Era.LEGACY:
                await rpc.notify(names.INITIALIZED)
            return handshake_result
    except TimeoutError:
        raise SessionFailed(f"no answer to the handshake within {timeout_s:g} s") from None
    except SessionFailed:
        raise
    except Unavailable as failure:
        raise SessionFailed(failure.text, retry_after_ms=failure.retry_after_ms) from failure
    except TransportEnded as end:
        raise SessionFailed(end.reason) from end


async def _negotiate(rpc: RpcConnection, version: str, first: Era) -> HandshakeResult:
    """Up to, not including, `notifications/initialized`."""
    if first is Era.MODERN and (handshake_result := await _try_discover(rpc, version)) is not None:
        return handshake_result
    client = {"name": OUR_NAME, "version": version}
    params = {"protocolVersion": LATEST_LEGACY, "capabilities": _CAPABILITIES, "clientInfo": client}
    answer = await _ask(rpc, names.INITIALIZE, params)
    if not isinstance(answer, RpcError):
        return _legacy(_object(answer))
    discovery = await _discover(rpc, version) if first is Era.LEGACY else answer
    if isinstance(discovery, RpcError):
        raise SessionFailed(f"refused the handshake: {clean_text(answer.message[:500])} ({answer.code})")
    return _modern(_object(discovery))


async def _try_discover(rpc: RpcConnection, version: str) -> HandshakeResult | None:
    """The handshake result of a stateless server; None for any other."""
    try:
        async with asyncio.timeout(PROBE_S):
            discovery = await _discover(rpc, version)
    except TimeoutError:
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


async def _discover(rpc: RpcConnection, version: str) -> msgspec.Raw | RpcError:
    meta = hop_meta(Era.MODERN, LATEST_MODERN, version, {})
    return await _ask(rpc, names.DISCOVER, {"_meta": meta})


async def _ask(rpc: RpcConnection, method: str, params: Mapping[str, Any]) -> msgspec.Raw | RpcError:
    try:
        return await rpc.request(rpc.next_id(), method, params)
    except InvalidResponseError:
        raise SessionFailed(f"answered {method} with something that is no JSON") from None


def _legacy(result: Mapping[str, Any]) -> HandshakeResult:
    revision = result.get("protocolVersion")
    if revision not in LEGACY_REVISIONS:
        raise SessionFailed(f"speaks revision {clean_text(str(revision)[:40])}, which we do not")
    return HandshakeResult(
        Era.LEGACY,
        str(revision),
        _mapping(result.get("capabilities")),
        _mapping(result.get("serverInfo")),
        _text(result.get("instructions")),
    )


def _modern(result: Mapping[str, Any]) -> HandshakeResult:
    offered = result.get("supportedVersions")
    spoken = [one for one in MODERN_REVISIONS if isinstance(offered, list) and one in offered]
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
