"""Who hears what: news of a workspace on their way to the standing streams of the sessions it concerns.

Where the news come from is `upstream_subscriptions.py`; how they wait for a session without a stream is
`server_stream.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from manager.routing.state.session_table import Session, SessionTable, workspaces_of
from manager.sessions.server_stream import ServerStream
from manager.sessions.stream import EventSink
from manager.sessions.streams import Streams
from protocol import jsonrpc, names

LISTEN_S = 15 * 60.0
"""How long after its last request a session without a stream is still listened for."""


class Notifier:
    """Tells sessions what changed. What cannot be told now is told on a session's next stream."""

    def __init__(self, sessions: SessionTable, streams: Streams, now: Callable[[], float]) -> None:
        self._sessions = sessions
        self._streams = streams
        self._now = now
        self.on_interest: Callable[[], None] | None = None
        """Called when somebody may want to hear of something else."""

    # -- interest -----------------------------------------------------------------------------------------

    def interest(self) -> dict[str, frozenset[str]]:
        """The workspaces somebody wants to hear of, each with the resources that are subscribed there."""
        active = self._sessions.active(self._now(), LISTEN_S)
        wanted: dict[str, set[str]] = {workspace: set() for workspace in workspaces_of(active)}
        for session in active:
            for uri, workspace in session.subscriptions.items():
                wanted.setdefault(workspace, set()).add(uri)
        return {workspace: frozenset(uris) for workspace, uris in wanted.items()}

    def stir(self) -> None:
        """A session may be interested in something else now."""
        if self.on_interest is not None:
            self.on_interest()

    # -- telling ------------------------------------------------------------------------------------------

    def lists_changed(self, workspace: str, methods: Iterable[str] = names.LISTS_CHANGED) -> None:
        """Lists of a workspace changed, by default all."""
        told = tuple(methods)
        for session in self._sessions:
            if session.is_notified_of(workspace):
                self._streams.server_stream(session).announce_lists(told)

    def resource_updated(self, workspace: str, uri: str, message: bytes) -> None:
        """A resource of a workspace changed: tell those who subscribed it, or what it is part of."""
        for session in self._sessions:
            if session.subscriptions and any(
                home == workspace and _covers(subscribed, uri)
                for subscribed, home in session.subscriptions.items()
            ):
                self._streams.server_stream(session).tell(uri, message)

    def anything_changed(self, workspace: str) -> None:
        """Nobody knows what happened in a workspace while nobody listened."""
        self.lists_changed(workspace)
        for session in self._sessions:
            self._tell_of_subscriptions(session, workspace)

    def notify_all_changed(self, session: Session) -> None:
        """Nobody knows what a session did not hear."""
        self._streams.server_stream(session).announce_lists()
        for workspace in set(session.subscriptions.values()):
            self._tell_of_subscriptions(session, workspace)

    def notify_recovered(self, serving: Collection[str]) -> None:
        """Tell sessions whose lists were incomplete while their workspace was in trouble."""
        for session in self._sessions:
            if (
                session.unannounced
                and session.workspace in serving
                and self._streams.open_server_stream(session)
            ):
                session.unannounced = False
                self._streams.server_stream(session).announce_lists()

    def _tell_of_subscriptions(self, session: Session, workspace: str) -> None:
        for uri, home in session.subscriptions.items():
            if home == workspace:
                message = jsonrpc.notification(names.RESOURCE_UPDATED, {"uri": uri})
                self._streams.server_stream(session).tell(uri, message)

    # -- streams ------------------------------------------------------------------------------------------

    def open_stream(
        self,
        session: Session,
        sink: EventSink,
        implied_workspace: str | None = None,
        *,
        takes_over: bool = False,
    ) -> ServerStream | None:
        """Give the session's standing stream to a connection; None when another one has it.

        Args:
            implied_workspace: the workspace that the connection's own address means.
            takes_over: whether it comes for just this stream, so that the other one must be dead.
        """
        standing = self._streams.server_stream(session)
        if standing.is_open and not takes_over:
            return None
        standing.stream.claim(sink)
        session.streaming = True
        session.implied_workspace = implied_workspace or session.implied_workspace
        if session.unannounced:
            session.unannounced = False
            standing.announce_lists()
        self.stir()
        return standing

    def close_stream(self, session: Session, sink: EventSink) -> None:
        """A connection has ended."""
        if self._streams.leave(session, sink):
            session.streaming = False
            session.seen = self._now()


def _covers(subscribed: str, uri: str) -> bool:
    """Whether news of a resource concern a subscription: of itself, or of what it is part of."""
    return uri == subscribed or uri.startswith(subscribed.rstrip("/") + "/")
