"""Words the close codes of WebSockets (RFC 6455 §7.4), and decides when to connect again. Pure."""

from __future__ import annotations

from typing import Final

NORMAL: Final = 1000
ATTEMPTS: Final = 5
FIRST_S: Final = 1.0
LONGEST_S: Final = 30.0
GAVE_UP: Final = "Max reconnection attempts reached"
_WORDS: Final = {
    1000: "closed normally",
    1001: "the other side is going away",
    1002: "protocol error",
    1003: "data of a kind that is not accepted",
    1005: "closed without a code",
    1006: "the connection was lost",
    1007: "invalid text",
    1008: "refused by policy",
    1009: "the message was too large",
    1010: "a needed extension is missing",
    1011: "the server failed",
    1012: "the server restarts",
    1013: "the server is overloaded; try again later",
    1014: "a gateway failed",
    1015: "the TLS handshake failed",
}


def close_words(code: int | None) -> str:
    """What a close code means; None: the connection broke off."""
    if code is None:
        return _WORDS[1006]
    return _WORDS.get(code, f"closed with code {code}")


def reconnect_delay(attempt: int) -> float | None:
    """Seconds before attempt number `attempt`, from 1: 1, 2, 4, 8, 16; None: no further attempt."""
    return min(FIRST_S * 2.0 ** (attempt - 1), LONGEST_S) if attempt <= ATTEMPTS else None
