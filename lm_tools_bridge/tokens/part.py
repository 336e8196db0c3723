"""Adds access tokens to the daemon: a gate decides by them about requests of unknown or all senders."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import structs

from lm_tools_bridge.http_server.refusal import AdmissionRefusal
from lm_tools_bridge.http_server.request_head import RequestHead
from lm_tools_bridge.text.redaction import hide
from lm_tools_bridge.token_bucket import TokenBucket
from lm_tools_bridge.tokens.token import (
    SCOPES,
    Token,
    TokenFileError,
    digest_of,
    read_tokens,
    remove_own_token,
    renew_own_token,
    scope_of,
    shown_token,
)
from manager.configuration.paths import Paths
from manager.features import AddedRoutes, DaemonPart, DaemonParts
from manager.guests import GuestGate
from manager.http import lazy_aiohttp as web
from manager.log import logger
from manager.routing.admission import is_mcp_target
from manager.sessions.session_manager import SessionManager

WRONG_AT_ONCE: Final = 10
"""Wrong tokens at once that are answered as such; others are told to wait."""
WRONG_PER_S: Final = 1.0
"""Wrong tokens a second that are answered as such for any length of time."""
MOST_SESSIONS: Final = 1_000
"""Most sessions that are remembered of one token, to be ended with it."""
OWN_PROGRAMS: Final = "own programs"
_REALM: Final = 'realm="lm-tools-bridge"'
_STEP: Final = (
    "make one on the manager's machine with `lmtb token create NAME`, and send it as the header "
    "Authorization: Bearer TOKEN"
)
_PASSWORD: Final = ("WWW-Authenticate", f'Basic {_REALM}, charset="UTF-8"')
"""Asks browsers for a password, except at MCP endpoints."""
TOO_MANY_WRONG: Final = AdmissionRefusal(
    429, "too many wrong tokens came lately; wait 1 s, then retry", (("Retry-After", "1"),)
)


class Ended(NamedTuple):
    """What ended with revoked tokens: the number of connections, and the ids of sessions."""

    connections: int
    sessions: tuple[str, ...]


class TokenGate:
    """The tokens of one manager, and the connections that use them.

    Args:
        path: the file of tokens.
        required: why every connection needs a token; None if only those of others do.
        own: the token of the user's own programs; None where none is required.
        wall: seconds since 1970.
        now: monotonic seconds.

    Attributes:
        problem: why the file cannot be used, so that no token of it counts; None if all is well.
    """

    def __init__(
        self,
        path: Path,
        *,
        required: str | None = None,
        own: str | None = None,
        wall: Callable[[], float] = time.time,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self.required = required
        self._own = () if own is None else (Token(OWN_PROGRAMS, digest_of(own), tuple(SCOPES), 0),)
        self._wall = wall
        self._now = now
        self._wrong = {is_own: TokenBucket(WRONG_PER_S, WRONG_AT_ONCE, now()) for is_own in (True, False)}
        self._tokens: tuple[Token, ...] = ()
        self._guests: set[Guest] = set()
        self._sessions: dict[str, dict[str, None]] = {}
        self.problem: str | None = None

    def asks(self, *, is_own: bool) -> bool:
        """Whether a connection needs tokens.

        Args:
            is_own: whether its other end is known to be a program of this user.
        """
        return self.required is not None or (not is_own and bool(self._tokens))

    def guest(self, end: Callable[[], None], *, is_own: bool) -> Guest:
        """Begin to decide about the requests of a connection.

        Args:
            end: ends the connection, when a token that it used is revoked.
        """
        return Guest(self, end, is_own=is_own)

    def load(self) -> None:
        """Read the file; no token of an unusable one counts. Blocks."""
        try:
            self._tokens, self.problem = read_tokens(self._path), None
        except TokenFileError as error:
            self._tokens, self.problem = (), str(error)

    def end_revoked(self) -> Ended:
        """End the connections of tokens that are no longer valid, and name their sessions."""
        valid = {token.digest for token in self._valid()}
        gone = [guest for guest in self._guests if guest.used - valid]
        for guest in gone:
            guest.end()
        sessions = [tuple(self._sessions.pop(digest)) for digest in self._sessions.keys() - valid]
        return Ended(len(gone), tuple(chain.from_iterable(sessions)))

    def find(self, secret: str, *, is_own: bool) -> Token | AdmissionRefusal:
        """The token that was shown. All are compared, in equal time for all guesses.

        Only wrong ones are slowed down: a program that sends nonsense must not lock out the others.
        """
        digest = digest_of(secret)
        match: Token | None = None
        for token in (*self._own, *self._tokens):
            if hmac.compare_digest(token.digest, digest):
                match = token
        if match is not None:
            return match
        if not self._wrong[is_own].take(self._now()):
            return TOO_MANY_WRONG
        return _challenge(f"the token is unknown or revoked; {_STEP}", error="invalid_token")

    def ask_for_token(self) -> AdmissionRefusal:
        """The refusal of a request without a token."""
        reason = "" if self.required is None else f" ({self.required})"
        return _challenge(f"a token is required here{reason}; {_STEP}")

    def refuse_late(self, token: Token) -> AdmissionRefusal | None:
        """The refusal of a token that is revoked or has expired; None if it is valid."""
        if token not in self._own and token not in self._tokens:
            return _challenge(f"the token was revoked; {_STEP}", error="invalid_token")
        if not self._is_current(token):
            return _challenge(f"the token has expired; {_STEP}", error="invalid_token")
        return None

    def add(self, guest: Guest, token: Token, session: str | None) -> None:
        """Note that a connection uses a token, and in which session."""
        self._guests.add(guest)
        if session is not None:
            sessions = self._sessions.setdefault(token.digest, {})
            sessions[session] = None
            if len(sessions) > MOST_SESSIONS:
                del sessions[next(iter(sessions))]

    def discard(self, guest: Guest) -> None:
        """Forget a connection that has ended."""
        self._guests.discard(guest)

    def _valid(self) -> list[Token]:
        return [token for token in (*self._own, *self._tokens) if self._is_current(token)]

    def _is_current(self, token: Token) -> bool:
        return token.expires is None or self._wall() * 1000 < token.expires


class Guest:
    """A connection whose requests need tokens.

    Attributes:
        used: digests of the tokens that it used.
    """

    def __init__(self, gate: TokenGate, end: Callable[[], None], *, is_own: bool) -> None:
        self._gate = gate
        self._end = end
        self._is_own = is_own
        self._last: tuple[bool, bytes, Token] | None = None
        self.used: set[str] = set()

    def refuse(self, head: RequestHead, session: str | None) -> AdmissionRefusal | None:
        """The refusal of a request without a token that allows it; None if it may pass.

        Args:
            session: the id that it names.
        """
        is_mcp = is_mcp_target(head.target)
        refusal = self._refusal(head, session, is_mcp=is_mcp)
        if refusal is None or refusal.status != 401 or is_mcp:
            return refusal
        return structs.replace(refusal, headers=(*refusal.headers, _PASSWORD))

    def _refusal(self, head: RequestHead, session: str | None, *, is_mcp: bool) -> AdmissionRefusal | None:
        field = next((value for name, value in head.headers if name.lower() == b"authorization"), b"")
        token = self._token(field, is_mcp=is_mcp)
        if isinstance(token, AdmissionRefusal):
            return token
        late = self._gate.refuse_late(token)
        if late is not None:
            return late
        needed = scope_of(head.method, head.target)
        if needed not in token.scopes:
            return _insufficient(needed)
        self.used.add(token.digest)
        self._gate.add(self, token, session)
        return None

    def _token(self, field: bytes, *, is_mcp: bool) -> Token | AdmissionRefusal:
        if self._last is not None and self._last[0] == is_mcp and hmac.compare_digest(self._last[1], field):
            return self._last[2]
        secret = shown_token(field, is_mcp=is_mcp)
        if secret is None:
            return self._gate.ask_for_token()
        match = self._gate.find(secret, is_own=self._is_own)
        if isinstance(match, Token):
            self._last = is_mcp, field, match
        return match

    def end(self) -> None:
        """End the connection."""
        self._end()

    def leave(self) -> None:
        """Note that the connection has ended."""
        self._gate.discard(self)


def _challenge(reason: str, *, error: str = "") -> AdmissionRefusal:
    """A refusal that says how to prove oneself (RFC 6750 §3)."""
    reason_member = f', error="{error}"' if error else ""
    return AdmissionRefusal(401, reason, (("WWW-Authenticate", f"Bearer {_REALM}{reason_member}"),))


def _insufficient(scope: str) -> AdmissionRefusal:
    text = f"the token lacks the scope {scope}; make one with: lmtb token create NAME --scope {scope}"
    challenge = f'Bearer {_REALM}, error="insufficient_scope", scope="{scope}"'
    return AdmissionRefusal(403, text, (("WWW-Authenticate", challenge),))


EXPIRY_S: Final = 5.0
"""How often open connections and sessions of expired tokens are ended; requests are refused at once."""


class TokensPart(DaemonPart):
    """The tokens of one manager."""

    def __init__(self, paths: Paths, required: str | None) -> None:
        self._gate = _make_gate(paths, required)
        self._session_manager: SessionManager | None = None

    def connect(self, parts: DaemonParts) -> None:
        """End sessions of revoked tokens here."""
        self._session_manager = parts.session_manager

    def guest_gate(self) -> GuestGate:
        """The gate."""
        return self._gate

    async def run(self) -> None:
        """End what used tokens that have expired, until cancelled."""
        while True:
            await self.end_revoked()
            await asyncio.sleep(EXPIRY_S)

    def control_routes(self) -> AddedRoutes:
        """The route of `lmtb token`."""
        return AddedRoutes([web.post("/tokens/reload", self._reload)])

    async def end_revoked(self) -> tuple[int, int]:
        """End what used tokens that are revoked or have expired: how many connections and sessions."""
        ended = self._gate.end_revoked()
        session_manager = self._session_manager
        count = 0 if session_manager is None else await _end_sessions(ended.sessions, session_manager)
        if ended.connections or count:
            logger().info("tokens.ended", connections=ended.connections, sessions=count)
        return ended.connections, count

    async def _reload(self, _: web.Request) -> web.Response:
        await asyncio.to_thread(self._gate.load)
        _log_problem(self._gate)
        connections, sessions = await self.end_revoked()
        members = {"connections": connections, "sessions": sessions, "problem": self._gate.problem}
        return web.json_response({"ok": True, "required": self._gate.required is not None, **members})


async def _end_sessions(identities: Iterable[str], session_manager: SessionManager) -> int:
    """End the sessions that there still are; returns how many."""
    sessions = [session_manager.get(identity, uses=False) for identity in identities]
    live = [session for session in sessions if session is not None]
    for session in live:
        await session_manager.end(session)
    return len(live)


def _make_gate(paths: Paths, required: str | None) -> TokenGate:
    own = None
    if required is not None:
        own = renew_own_token(paths.runtime_dir, paths.former_dirs)
        hide(own)
    else:
        remove_own_token(paths.runtime_dir)
    gate = TokenGate(paths.tokens_file, required=required, own=own)
    gate.load()
    _log_problem(gate)
    return gate


def _log_problem(gate: TokenGate) -> None:
    if gate.problem is not None:
        logger().error("tokens.unusable", why=gate.problem, until_then="no token is valid")
