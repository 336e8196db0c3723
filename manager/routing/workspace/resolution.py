"""Which workspace a request is for: the order in which its claims are asked, and what a conflict is.

Rungs: the path, an explicit argument, the session's binding, the ambient query or header, the folder Codex
tells of, the client's roots. What a claimed folder *is* on disk is answered elsewhere
(`manager/filesystem.py`, `matching.py`); this file only says whom to ask and whom to believe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

MAX_SHOWN: Final = 300
"""Characters of a claim that a person is shown."""


class WorkspaceSource(Enum):
    """Who decided; the value is what `X-Workspace-Source` says."""

    PATH = "path"
    ARGUMENT = "argument"
    SESSION = "session"
    QUERY = "query"
    HEADER = "header"
    CODEX = "codex"
    ROOTS = "roots"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement about the workspace: an id, or a folder as the client wrote it."""

    source: WorkspaceSource
    text: object
    is_id: bool = False


class Claims(msgspec.Struct, frozen=True, gc=False):
    """Everything one request says about its workspace; None where it says nothing.

    A `+` in `query` is kept: it is tried as it stands, then as the blank that a form would mean. `roots` are
    the client's, None where it was not asked. `state` is the workspace whose question the request answers,
    which only roots can have led to: everything else is said again with each request.
    """

    path: str | None = None
    argument_workspace: object = None
    argument_cwd: object = None
    session: str | None = None
    query: str | None = None
    header: str | None = None
    codex: str | None = None
    state: str | None = None
    roots: tuple[str, ...] | None = None

    def explicit_claims(self) -> tuple[Claim, ...]:
        """Said in this very request: all of them must mean the same workspace (rungs 1 and 2)."""
        claims = (
            Claim(WorkspaceSource.PATH, self.path, is_id=True),
            Claim(WorkspaceSource.ARGUMENT, self.argument_workspace, is_id=True),
            Claim(WorkspaceSource.ARGUMENT, self.argument_cwd),
        )
        return tuple(claim for claim in claims if claim.text is not None)

    def shown_texts(self) -> dict[str, str]:
        """What was said beside arguments and the session's choice, as texts for a person to read."""
        members = {
            "path": self.path,
            "?cwd": self.query,
            "X-Workspace-Cwd": self.header,
            "sandboxCwd": self.codex,
            "roots": " ".join(self.roots) if self.roots else None,
        }
        texts = {name: text[:MAX_SHOWN] for name, text in members.items() if text is not None}
        return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}

    def session_claim(self) -> Claim | None:
        """The session's choice: beaten by what is explicit, beating what is ambient (rung 3)."""
        return None if self.session is None else Claim(WorkspaceSource.SESSION, self.session, is_id=True)

    def ambient_claims(self) -> tuple[Claim, ...]:
        """What comes with the request unasked: a miss falls to the next (rungs 4 and 5)."""
        form = self.query.replace("+", " ") if self.query is not None and "+" in self.query else None
        claims = (
            Claim(WorkspaceSource.QUERY, self.query),
            Claim(WorkspaceSource.QUERY, form),
            Claim(WorkspaceSource.HEADER, self.header),
            Claim(WorkspaceSource.CODEX, self.codex),
            Claim(WorkspaceSource.ROOTS, self.state, is_id=True),
        )
        return tuple(claim for claim in claims if claim.text is not None)


@lru_cache(maxsize=256)  # a client says the same with every call
def decisive_claim(claims: Claims) -> Claim | None:
    """The one claim that decides, if it can be served; None where several do, or nothing is said."""
    explicit_claims = claims.explicit_claims()
    if explicit_claims:
        return explicit_claims[0] if len(explicit_claims) == 1 else None
    session_claim = claims.session_claim()
    return session_claim or next(iter(claims.ambient_claims()), None)


def conflicting_workspaces(workspaces: Sequence[str]) -> tuple[str, str] | None:
    """The first two different workspace ids among explicit claims, or None when they agree (47110)."""
    for other in workspaces[1:]:
        if other != workspaces[0]:
            return workspaces[0], other
    return None
