"""Defines the state of a session that decides where its calls go. Sessions that agree in it share routes."""

from __future__ import annotations

import msgspec

from manager.routing.state.session_table import Session


class SessionProfile(msgspec.Struct, frozen=True, gc=False):
    """The state of a session that decides where its calls go, and how they are written for the server.

    Only the first four members can change (`is_current`).
    """

    workspace: str | None
    cwd: str | None
    roots: tuple[str, ...] | None
    log_level: str | None
    revision: str
    client_name: str | None
    client_version: str | None
    capabilities: bytes
    mode: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, session: Session) -> SessionProfile:
        """The current profile of a session."""
        return cls(
            session.workspace,
            session.cwd,
            session.roots,
            session.log_level,
            session.revision,
            session.client_name,
            session.client_version,
            session.capabilities,
            session.mode,
        )

    def is_current(self, session: Session) -> bool:
        """Whether a session that once had this profile still has it."""
        return (
            session.workspace == self.workspace
            and session.cwd == self.cwd
            and session.roots == self.roots
            and session.log_level == self.log_level
        )
