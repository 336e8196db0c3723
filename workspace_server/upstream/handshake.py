"""Finding out what a server speaks: `initialize` first, and the stateless way where it refuses that (T-85).

Not the other way round: some servers exit on a request they do not know before `initialize` (row C9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from protocol import names
from protocol.versions import LATEST_LEGACY, LATEST_MODERN, LEGACY_REVISIONS, MODERN_REVISIONS, Era
from workspace_server.results import clean_text
from workspace_server.source import Greeting, RpcError
from workspace_server.upstream.exchange import BrokenAnswer, Exchange
from workspace_server.upstream.failures import SessionFailed
from workspace_server.upstream.messages import OUR_NAME, hop_meta

_CAPABILITIES: Final[Mapping[str, Any]] = {"roots": {}}


async def shake(exchange: Exchange, version: str) -> Greeting:
    """The handshake up to, not including, `notifications/initialized`. `version` is that of this product.

    Raises:
        SessionFailed: the server refuses, or speaks nothing we do.
        Unavailable: it gave no answer.
    """
    client = {"name": OUR_NAME, "version": version}
    params = {"protocolVersion": LATEST_LEGACY, "capabilities": _CAPABILITIES, "clientInfo": client}
    answer = await _ask(exchange, names.INITIALIZE, params)
    if not isinstance(answer, RpcError):
        return _legacy(_object(answer))
    meta = hop_meta(Era.MODERN, LATEST_MODERN, version, {})
    discovered = await _ask(exchange, names.DISCOVER, {"_meta": meta})
    if not isinstance(discovered, RpcError):
        return _modern(_object(discovered))
    raise SessionFailed(f"refused the handshake: {clean_text(answer.message[:500])} ({answer.code})")


async def _ask(exchange: Exchange, method: str, params: Mapping[str, Any]) -> msgspec.Raw | RpcError:
    try:
        return await exchange.ask(exchange.number(), method, params)
    except BrokenAnswer:
        raise SessionFailed(f"answered {method} with something that is no JSON") from None


def _legacy(result: Mapping[str, Any]) -> Greeting:
    revision = result.get("protocolVersion")
    if revision not in LEGACY_REVISIONS:
        raise SessionFailed(f"speaks revision {clean_text(str(revision)[:40])}, which we do not")
    return Greeting(
        Era.LEGACY,
        str(revision),
        _mapping(result.get("capabilities")),
        _mapping(result.get("serverInfo")),
        _text(result.get("instructions")),
    )


def _modern(result: Mapping[str, Any]) -> Greeting:
    offered = result.get("supportedVersions")
    spoken = [one for one in MODERN_REVISIONS if isinstance(offered, list) and one in offered]
    if not spoken:
        raise SessionFailed(f"speaks revisions {clean_text(str(offered)[:200])}, which we do not")
    return Greeting(
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
