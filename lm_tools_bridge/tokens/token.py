"""Defines tokens, what each scope allows, and how a request shows one (RFC 6750, RFC 7617). Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Final

import msgspec

from manager.routing.request_heads.admission import is_mcp_target

SCOPES: Final = {
    "mcp": "call tools: the MCP endpoints",
    "read": "read the page, status, metrics and log",
    "act": "use the page’s buttons, and reserve ports",
}
"""Each scope, and what it allows."""
TEAM_PATH: Final = "/team/"
"""Below it are the MCP endpoints of a team's offers."""
_LONGEST: Final = 256
"""Longest text that is taken for a token: ours have 48 characters, and a digest takes time for each byte."""


class Token(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What is stored of a token. Times are ms since 1970.

    Attributes:
        digest: SHA-256 of the token, in hexadecimal digits. A token is 256 random bits, so it needs no salt.
        expires: None for never.
    """

    name: str
    digest: str
    scopes: tuple[str, ...]
    created: int
    expires: int | None = None


def digest_of(token: str) -> str:
    """What is stored instead of a token, and compared."""
    return hashlib.sha256(token[:_LONGEST].encode("utf-8", "surrogatepass")).hexdigest()


def scope_of(method: str, target: str) -> str:
    """The scope that a request needs."""
    if is_mcp_target(target) or (method == "POST" and target.startswith(TEAM_PATH)):
        return "mcp"
    return "read" if method == "GET" else "act"


def shown_token(authorization: bytes, *, is_mcp: bool) -> str | None:
    """The token in an `Authorization` field; None if there is none.

    Args:
        is_mcp: whether it is a request to an MCP endpoint. Elsewhere a token may also be the password of
            Basic, which is what browsers can send.
    """
    scheme, _, rest = authorization.strip().partition(b" ")
    kind, value = scheme.lower(), rest.strip()
    if len(value) > 4 * _LONGEST:
        return None
    if kind == b"bearer":
        return value.decode("latin-1") or None
    if kind != b"basic" or is_mcp:
        return None
    try:
        _, colon, password = base64.b64decode(value, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return password.decode("latin-1") if colon and password else None
