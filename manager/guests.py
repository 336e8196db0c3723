"""Guests: connections of which each request has to prove who sends it, and who decides about them.

Here is only the seam: the feature `tokens` has the gate that lets guests pass. Without a gate, connections
whose other end is not known to be this user are refused, and where all need a proof, all are (`ClosedGate`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import RequestHead

NO_PROOF: Final = AdmissionRefusal(
    403, "tokens are required here (setting require_token), and this installation cannot check any"
)


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
    """Lets nobody pass: every request has to prove who sends it, and nothing here can check that."""

    def asks(self, *, is_own: bool) -> bool:
        """See `GuestGate`."""
        return True

    def guest(self, end: Callable[[], None], *, is_own: bool) -> Guest:
        """See `GuestGate`."""
        return self

    def refuse(self, head: RequestHead, session: str | None) -> AdmissionRefusal | None:
        """See `Guest`."""
        return NO_PROOF

    def leave(self) -> None:
        """See `Guest`."""
