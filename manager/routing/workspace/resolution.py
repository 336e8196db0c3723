"""Workspace resolution: the precedence of the claims in a request, and when claims conflict.

Steps, the first that gives a workspace wins: (1) path of the URL, (2) explicit argument, (3) binding of the
session, (4) query or header, (5) sandbox folder from Codex, (6) the client's roots.
`manager/disk/filesystem.py` and `matching.py` find the workspace of a claimed folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

MAX_SHOWN: Final = 300
"""Longest text of a claim that users are shown, in characters."""


class WorkspaceSource(Enum):
    """The kind of claim that decided; its value is sent in `X-Workspace-Source`."""

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
    """One claim: a workspace id, or a folder as the client wrote it."""

    source: WorkspaceSource
    text: object
    is_id: bool = False


class Claims(msgspec.Struct, frozen=True, gc=False):
    """All claims of one request about its workspace; None for absent ones.

    Attributes:
        query: `?cwd=`. A `+` is kept: it is tried literally first, then as a blank.
        roots: the client's roots; None if the client was not asked for them.
        state: workspace of the `requestState` that the request repeats. It was resolved by roots, since all
            other claims are repeated with each request.
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
        """Claims of URL path and arguments (steps 1 and 2). All must mean the same workspace."""
        claims = (
            Claim(WorkspaceSource.PATH, self.path, is_id=True),
            Claim(WorkspaceSource.ARGUMENT, self.argument_workspace, is_id=True),
            Claim(WorkspaceSource.ARGUMENT, self.argument_cwd),
        )
        return tuple(claim for claim in claims if claim.text is not None)

    def shown_texts(self) -> dict[str, str]:
        """The ambient claims and the path as texts for users."""
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
        """The binding of the session (step 3): after explicit claims, before ambient ones."""
        return None if self.session is None else Claim(WorkspaceSource.SESSION, self.session, is_id=True)

    def ambient_claims(self) -> tuple[Claim, ...]:
        """Claims that come with every request (steps 4 to 6). If one finds nothing, the next is tried."""
        form = self.query.replace("+", " ") if self.query is not None and "+" in self.query else None
        claims = (
            Claim(WorkspaceSource.QUERY, self.query),
            Claim(WorkspaceSource.QUERY, form),
            Claim(WorkspaceSource.HEADER, self.header),
            Claim(WorkspaceSource.CODEX, self.codex),
            Claim(WorkspaceSource.ROOTS, self.state, is_id=True),
        )
        return tuple(claim for claim in claims if claim.text is not None)


@lru_cache(maxsize=256)  # a client repeats its claims with every call
def decisive_claim(claims: Claims) -> Claim | None:
    """The single claim that decides; None if several may decide, or if there is none."""
    explicit = claims.explicit_claims()
    if explicit:
        return explicit[0] if len(explicit) == 1 else None
    return claims.session_claim() or next(iter(claims.ambient_claims()), None)


def conflicting_workspaces(workspaces: Sequence[str]) -> tuple[str, str] | None:
    """The first two different workspace ids among explicit claims, or None when they agree (47110)."""
    for other in workspaces[1:]:
        if other != workspaces[0]:
            return workspaces[0], other
    return None
