"""Guests: connections of which each request has to prove who sends it, and who decides about them.

Here is only the seam: the feature `tokens` has the gate that lets guests pass. Without a gate, connections
whose other end is not known to be this user are refused, and where all need a proof, all are (`ClosedGate`).
All need one with the setting `require_token`, and where the system does not tell whose a connection is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import RequestHead

SETTING: Final = "setting require_token"
UNKNOWN_USERS: Final = "this system does not tell which user a connection comes from"
"""Why each connection has to prove who sends its requests. The texts are for people."""


class Guest(Protocol):
    """A connection of which each request has to prove who sends it."""

    def refuse(self, head: RequestHead, session: str | None) -> AdmissionRefusal | None:
        """The refusal of a request that proves nothing; None if it may pass.

        Args:
            session: the id that it names.
        """

    def leave(self) -> None:
        """Note that the connection has ended."""


class GuestGate(Protocol):
    """Decides about connections whose other end is not known to be this user, or where all need a proof.

    The feature `tokens` has one. Without any, such connections are refused.
    """

    def asks(self, *, is_own: bool) -> bool:
        """Whether each request of a connection has to prove who sends it.

        Args:
            is_own: whether its other end is known to be a program of this user.
        """

    def guest(self, end: Callable[[], None], *, is_own: bool) -> Guest:
        """Begin to decide about the requests of a connection.

        Args:
            end: ends the connection, when what it proved does not count any more.
        """


class ClosedGate:
    """Lets nobody pass: every request has to prove who sends it, and nothing here can check that.

    Args:
        reason: why, for the refusal.
    """

    def __init__(self, reason: str = SETTING) -> None:
        self._refusal = AdmissionRefusal(
            403, f"tokens are required here ({reason}), and this installation cannot check any"
        )

    def asks(self, *, is_own: bool) -> bool:
        """See `GuestGate`."""
        return True

    def guest(self, end: Callable[[], None], *, is_own: bool) -> Guest:
        """See `GuestGate`."""
        return self

    def refuse(self, head: RequestHead, session: str | None) -> AdmissionRefusal | None:
        """See `Guest`."""
        return self._refusal

    def leave(self) -> None:
        """See `Guest`."""
