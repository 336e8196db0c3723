"""Decides who may act on the page: tickets that are used once, and the sessions that they open. Pure.

Reading needs no session: admission has proved that the peer is this user. Acting needs two secrets of one
session: a cookie, which browsers also send to other ports of the same host, and a proof, which only the
page's own origin can read.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

TICKET_S: Final = 60.0
"""`lmtb ui` opens the browser at once; one that has to start may need half a minute. A ticket in the history
of a shell or browser is soon worth nothing."""
SESSION_S: Final = 12 * 3600.0
"""A working day: a person signs in once, and a browser that is left open overnight may not act."""
IDLE_S: Final = 2 * 3600.0
"""Longer than a meeting or lunch, after which a person goes on in the same page."""
MOST_TICKETS: Final = 16  # a loop of `lmtb ui` replaces the oldest ticket, and fills no memory
MOST_SESSIONS: Final = 16  # a person has a few browsers; one more ends the oldest session
MAX_BROWSER: Final = 200
"""Longest name of a browser that is shown, in characters."""
_SECRET_LENGTH: Final = 128
"""Longest text that is compared with a secret."""


class Secrets(NamedTuple):
    """What a browser gets when its session begins."""

    cookie: str
    proof: str


class PageSession(msgspec.Struct):
    """A session of a browser. Times are seconds of the clock; `browser` is what it calls itself."""

    number: int
    cookie_digest: bytes
    proof_digest: bytes
    browser: str
    began: float
    used: float


class Access:
    """The tickets and sessions of one manager's page. They end with the manager.

    Args:
        clock: monotonic seconds.
        new_secret: a new unguessable text, as `secrets.token_urlsafe()` makes it.
    """

    def __init__(self, clock: Callable[[], float], new_secret: Callable[[], str]) -> None:
        self._clock = clock
        self._new_secret = new_secret
        self._tickets: dict[bytes, float] = {}
        self._sessions: list[PageSession] = []
        self._opened = 0

    def issue_ticket(self) -> str:
        """A ticket that opens one session within a minute. Where there are too many, the oldest ends."""
        now = self._clock()
        self._tickets = {digest: end for digest, end in self._tickets.items() if end > now}
        while len(self._tickets) >= MOST_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        ticket = self._new_secret()
        self._tickets[_digest(ticket)] = now + TICKET_S
        return ticket

    def open_session(self, ticket: str, browser: str) -> Secrets | None:
        """Use a ticket up; None if it is unknown, used or late."""
        now = self._clock()
        end = self._tickets.pop(_digest(ticket), None)
        if end is None or end <= now:
            return None
        secrets = Secrets(self._new_secret(), self._new_secret())
        self._opened += 1
        session = PageSession(
            self._opened, _digest(secrets.cookie), _digest(secrets.proof), browser, began=now, used=now
        )
        self._sessions = [*self.sessions()[-(MOST_SESSIONS - 1) :], session]
        return secrets

    def may_act(self, cookie: str, proof: str) -> bool:
        """Whether both secrets belong to one session that is not over; it counts as used now."""
        cookie_digest, proof_digest = _digest(cookie), _digest(proof)
        for session in self.sessions():
            if hmac.compare_digest(session.cookie_digest, cookie_digest):
                if not hmac.compare_digest(session.proof_digest, proof_digest):
                    return False
                session.used = self._clock()
                return True
        return False

    def sessions(self) -> list[PageSession]:
        """The sessions that are not over, the oldest first."""
        now = self._clock()
        return [
            session
            for session in self._sessions
            if now - session.began < SESSION_S and now - session.used < IDLE_S
        ]

    def revoke(self) -> int:
        """End all sessions and tickets; returns how many sessions there were."""
        count = len(self.sessions())
        self._sessions = []
        self._tickets = {}
        return count

    def revoke_one(self, number: int) -> PageSession | None:
        """End the session with this number and return it; None if there is none. Tickets stay valid."""
        session = next((candidate for candidate in self.sessions() if candidate.number == number), None)
        self._sessions = [candidate for candidate in self.sessions() if candidate is not session]
        return session

    def as_json(self) -> list[dict[str, Any]]:
        """The sessions for people, with ages in seconds."""
        now = self._clock()
        return [
            {
                "number": session.number,
                "browser": session.browser[:MAX_BROWSER],
                "openedAgeSec": int(now - session.began),
                "actedAgeSec": int(now - session.used),
            }
            for session in self.sessions()
        ]


def _digest(secret: str) -> bytes:
    """What is kept and compared instead of a secret, in equal time for all guesses."""
    return hashlib.sha256(secret[:_SECRET_LENGTH].encode("utf-8", "surrogatepass")).digest()
