"""Decides who may open a WebSocket at the endpoint: by Host, Origin and token. Pure."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

PROTOCOL: Final = "mcp"
"""The WebSocket subprotocol; browsers name it beside the token."""
TOKEN_PREFIX: Final = "lmtb.token."  # noqa: S105  the beginning of a subprotocol's name
_BEARER: Final = "bearer "


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a connection is refused, with the HTTP status."""

    status: int
    reason: str


def admitted(
    headers: Mapping[str, str], hosts: Collection[str], origins: Collection[str], token: str
) -> Denied | None:
    """None if the connection may be opened.

    Args:
        headers: of the request; names compare in any case.
        hosts: the exact values of Host that are ours.
        origins: pages that may connect, such as `https://example.org`. Programs send no Origin.
        token: what the client has to know.
    """
    if headers.get("Host", "").lower() not in hosts:
        return Denied(403, "foreign host")
    origin = headers.get("Origin")
    if origin is not None and origin.lower() not in {allowed.lower().rstrip("/") for allowed in origins}:
        return Denied(403, "this page may not use tools; allow it with --origin")
    if origin is None and headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
        return Denied(403, "cross-site request")
    token_text = token_in(headers)
    if token_text is None or not hmac.compare_digest(
        token_text.encode("utf-8", "surrogateescape"), token.encode()
    ):
        return Denied(401, "the token is missing or wrong")
    return None


def token_in(headers: Mapping[str, str]) -> str | None:
    """The token of a client: a bearer token, or for browsers, which cannot set headers, a subprotocol."""
    authorization = headers.get("Authorization", "")
    if authorization.lower().startswith(_BEARER):
        return authorization[len(_BEARER) :].strip()
    for offered in offered_protocols(headers):
        if offered.startswith(TOKEN_PREFIX):
            return offered.removeprefix(TOKEN_PREFIX)
    return None


def offered_protocols(headers: Mapping[str, str]) -> Iterable[str]:
    """The subprotocols that a client offers."""
    return [protocol.strip() for protocol in headers.get("Sec-WebSocket-Protocol", "").split(",")]
