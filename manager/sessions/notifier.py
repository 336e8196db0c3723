"""Notifies the sessions that a change in a workspace concerns, on their server streams.

`upstream_subscriptions.py` receives the notifications from workspace servers; `streams.py` keeps them
for sessions without a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from lm_tools_bridge.protocol import jsonrpc, names
from manager.routing.client_profiles import ClientProfiles
from manager.routing.state.session_table import Session, SessionTable, workspaces_of
from manager.sessions.streams import EventSink, ServerStream, Streams

SUBSCRIBED_S = 15 * 60.0
"""Seconds after its last request for which a session without an open stream stays subscribed upstream."""


class Notifier:
    """Sends change notifications to sessions, or keeps them for a session's next connection."""

    def __init__(
        self,
        sessions: SessionTable,
        streams: Streams,
        now: Callable[[], float],
        profiles: ClientProfiles | None = None,
    ) -> None:
        self._sessions = sessions
        self._profiles = profiles or ClientProfiles()
        self._streams = streams
        self._now = now
        self.on_interest_changed: Callable[[], None] | None = None
        """Called when the result of `interest` may have changed."""

    # -- interest -----------------------------------------------------------------------------------------

    def interest(self) -> dict[str, frozenset[str]]:
        """The workspaces that active sessions use, each with the URIs subscribed there."""
        active = self._sessions.active(self._now(), SUBSCRIBED_S)
        wanted: dict[str, set[str]] = {workspace: set() for workspace in workspaces_of(active)}
        for session in active:
            for uri, workspace in session.subscriptions.items():
                wanted.setdefault(workspace, set()).add(uri)
        return {workspace: frozenset(uris) for workspace, uris in wanted.items()}

    def interest_changed(self) -> None:
        """Report that a session may be interested in other workspaces or resources now."""
        if self.on_interest_changed is not None:
            self.on_interest_changed()

    # -- notifications ------------------------------------------------------------------------------------

    def notify_lists_changed(self, workspace: str, methods: Iterable[str] = names.LISTS_CHANGED) -> None:
        """Notify the sessions of a workspace that lists changed, by default all lists."""
        changed = tuple(methods)
        for session in self._sessions:
            if session.is_notified_of(workspace):
                self._streams.server_stream(session).notify_lists_changed(changed)
                if names.TOOLS_CHANGED in changed:
                    self._note_change(session)

    def note_missed_changes(self, session: Session) -> None:
        """Note that a client which may have listed tools has to list them again: changes may be missed."""
        session.has_listed = True
        self._note_change(session)

    def _note_change(self, session: Session) -> None:
        """Note that a client which listed tools, and can hear of changes, has to list them again."""
        session.tools_changed = True
        session.list_due = session.has_listed and self.hears_of_changes(session)

    def hears_of_changes(self, session: Session) -> bool:
        """Whether the session's client lists again when it is told that its tools changed."""
        profile = self._profiles.of(session.client_name, session.client_version)
        return profile.hears_list_changed != "never"

    def notify_resource_updated(self, workspace: str, uri: str, message: bytes) -> None:
        """Send a resource update to the sessions that subscribed to the resource or to a parent of it."""
        for session in self._sessions:
            if session.subscriptions and any(
                home == workspace and _covers(subscribed, uri)
                for subscribed, home in session.subscriptions.items()
            ):
                self._streams.server_stream(session).notify(uri, message)

    def notify_workspace_changed(self, workspace: str) -> None:
        """Tell sessions that anything in a workspace may have changed, because notifications were missed."""
        self.notify_lists_changed(workspace)
        for session in self._sessions:
            self._notify_subscriptions(session, workspace)

    def notify_all_changed(self, session: Session) -> None:
        """Tell a session that anything may have changed, because it missed notifications."""
        self._streams.server_stream(session).notify_lists_changed()
        for workspace in set(session.subscriptions.values()):
            self._notify_subscriptions(session, workspace)

    def notify_recovered(self, serving: Collection[str]) -> None:
        """Tell sessions that their lists are complete again; `serving` are the ids of serving workspaces."""
        for session in self._sessions:
            if (
                session.unannounced
                and session.workspace in serving
                and self._streams.open_server_stream(session)
            ):
                session.unannounced = False
                self._streams.server_stream(session).notify_lists_changed()

    def _notify_subscriptions(self, session: Session, workspace: str) -> None:
        for uri, home in session.subscriptions.items():
            if home == workspace:
                message = jsonrpc.notification(names.RESOURCE_UPDATED, {"uri": uri})
                self._streams.server_stream(session).notify(uri, message)

    # -- streams ------------------------------------------------------------------------------------------

    def open_stream(
        self,
        session: Session,
        sink: EventSink,
        implied_workspace: str | None = None,
        *,
        takes_over: bool = False,
    ) -> ServerStream | None:
        """Attach a connection to the session's server stream; None if it has another connection.

        Args:
            implied_workspace: id of the workspace that the connection's URL means.
            takes_over: whether the client resumes this very stream, so that the other connection is dead.
        """
        server_stream = self._streams.server_stream(session)
        if server_stream.is_open and not takes_over:
            return None
        server_stream.stream.attach(sink)
        session.streaming = True
        session.implied_workspace = implied_workspace or session.implied_workspace
        if session.unannounced:
            session.unannounced = False
            server_stream.notify_lists_changed()
        self.interest_changed()
        return server_stream

    def close_stream(self, session: Session, sink: EventSink) -> None:
        """Detach a connection that has ended."""
        if self._streams.detach(session, sink):
            session.streaming = False
            session.seen = self._now()


def _covers(subscribed: str, uri: str) -> bool:
    """Whether a subscription includes a resource: the URI itself or a path below it."""
    return uri == subscribed or uri.startswith(subscribed.rstrip("/") + "/")
