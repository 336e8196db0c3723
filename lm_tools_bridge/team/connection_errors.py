"""Words problems of the connection to a team's NATS servers for people, with the next step. Pure."""

from __future__ import annotations

import ssl
from typing import Final

_MOST: Final = 300
PLAIN_TEXT: Final = (
    "the server offers no TLS, which was asked for; nothing was sent. Somebody between may strip it: "
    "ask who runs the server"
)
_REFUSED: Final = ("authorization violation", "authentication expired", "authentication revoked",
                   "account authentication expired", "nats: authorization failed")  # fmt: skip
"""What servers say of credentials, in lower case."""


class PlainText(OSError):
    """The server would be talked to in plain text where TLS is wanted."""

    def __init__(self) -> None:
        super().__init__(PLAIN_TEXT)


def worded(error: BaseException) -> str:
    """What is wrong, and what to do about it where that is known."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _certificate(error)
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or str(error)  # errors of the handshake alone have a reason
        return f"TLS fails: {reason}; check --cert and --key, and whether the server speaks TLS"[:_MOST]
    reason = (str(error) or type(error).__name__)[:_MOST]
    if any(phrase in reason.lower() for phrase in _REFUSED):
        return (
            "authorization: the server does not accept the credentials. They may be revoked, expired or of "
            "another server; get new ones from its administrator"
        )
    if is_hangup(error):
        return f"the server closed the connection ({reason}); it may not accept the credentials"
    if isinstance(error, TimeoutError):
        return "the server does not answer"
    return reason


def is_hangup(error: BaseException) -> bool:
    """Whether the other end closed the connection without a word, or its word was lost by that."""
    return isinstance(error, BrokenPipeError | ConnectionResetError)


def _certificate(error: ssl.SSLCertVerificationError) -> str:
    why = error.verify_message or "it cannot be verified"
    step = "check the address" if "mismatch" in why else "join with the team's certificates: --ca FILE"
    return f"the certificate of the server is not trusted: {why}; {step}"[:_MOST]
