"""Workspace resolution: decides from all that a request says of its workspace which one it means. Pure.

What was named for this request or session counts alone: the path of the URL, a pinned folder, an argument,
a handshake. Everything else is evidence (`weigh`). Where the client says that it works (its roots, the folder
of Codex) is stronger than the folder that its process was started in (query, header), because agents outlive
the shell that started them. Evidence that contradicts itself is never settled by a guess.
A variable that a client sent as its configuration spells it, not as its value, is no folder, and is named.
`manager/disk/filesystem.py` and `matching.py` find the workspace of a claimed folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.protocol.issues import Issue
from manager.disk.folder import CwdProblemKind
from manager.routing.cwd import placeholder_in
from manager.routing.remote_address import is_remote_address

MAX_SHOWN: Final = 300
"""Longest text of a claim that users are shown, in characters."""


class WorkspaceSource(Enum):
    """The kind of claim that decided; its value is sent in `X-Workspace-Source`."""

    PATH = "path"
    ARGUMENT = "argument"
    SESSION = "session"
    STATE = "state"
    QUERY = "query"
    HEADER = "header"
    CODEX = "codex"
    ROOTS = "roots"
    PATHS = "paths"
    NONE = "none"


WORDS: Final = {
    WorkspaceSource.QUERY: "?cwd= in the client's address",
    WorkspaceSource.HEADER: "the client's header X-Workspace-Cwd",
    WorkspaceSource.CODEX: "the folder that Codex works in",
    WorkspaceSource.ROOTS: "the client's roots",
}
"""How evidence is called in texts for people and models."""


class Claim(msgspec.Struct, frozen=True):
    """One claim: a workspace id, or a folder as the client wrote it."""

    source: WorkspaceSource
    text: object
    is_id: bool = False


class Claims(msgspec.Struct, frozen=True, gc=False):
    """All claims of one request about its workspace; None for absent ones.

    Attributes:
        query: `?cwd=`. A `+` is kept: it is tried literally first, then as a blank.
        pinned: whether `query`, or `header` without a query, counts alone: the address says `pin=true`, or a
            manager on another host has decided already.
        roots: the client's roots; None if the client was not asked for them.
        state: workspace of the `requestState` that the request repeats: it continues a call that went there.
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
    pinned: bool = False

    def explicit_claims(self) -> tuple[Claim, ...]:
        """Claims of the URL's path, of arguments and of a pinned folder. All must mean the same workspace."""
        claims = (
            Claim(WorkspaceSource.PATH, self.path, is_id=True),
            Claim(WorkspaceSource.ARGUMENT, self.argument_workspace, is_id=True),
            Claim(WorkspaceSource.ARGUMENT, self.argument_cwd),
            Claim(WorkspaceSource.QUERY, self.query if self.pinned else None),
            Claim(WorkspaceSource.HEADER, self.header if self._has_pinned_header() else None),
        )
        return tuple(claim for claim in claims if claim.text is not None)

    def _has_pinned_header(self) -> bool:
        return self.pinned and self.query is None

    def standing_claims(self) -> tuple[Claim, ...]:
        """What was settled before this request: the call that it continues, the handshake of its session."""
        claims = (
            Claim(WorkspaceSource.STATE, self.state, is_id=True),
            Claim(WorkspaceSource.SESSION, self.session, is_id=True),
        )
        return tuple(claim for claim in claims if claim.text is not None)

    def evidence(self) -> tuple[Claim, ...]:
        """What is weighed where nothing else names the workspace, the strongest first.

        The address of a project on another host stands alone: a person wrote it, no process works there.
        """
        remote = self.remote_claim()
        if remote is not None:
            return (remote,)
        query = None if self.pinned else self.query
        claims = (
            Claim(WorkspaceSource.CODEX, self.codex),
            *(Claim(WorkspaceSource.ROOTS, root) for root in self.roots or ()),
            Claim(WorkspaceSource.QUERY, query),
            Claim(WorkspaceSource.HEADER, None if self._has_pinned_header() else self.header),
        )
        return tuple(claim for claim in claims if claim.text is not None)

    def remote_claim(self) -> Claim | None:
        """The address of a project on another host in query or header."""
        if self.query is not None and is_remote_address(self.query):
            return Claim(WorkspaceSource.QUERY, self.query)
        if self.header is not None and is_remote_address(self.header):
            return Claim(WorkspaceSource.HEADER, self.header)
        return None

    def names_workspace(self) -> bool:
        """Whether the workspace is named, so that the client need not be asked where it works."""
        claims = (self.path, self.argument_workspace, self.argument_cwd, self.state, self.session)
        if any(claim is not None for claim in claims) or self.pinned:
            return True
        return self.remote_claim() is not None

    def shown_texts(self) -> dict[str, str]:
        """What the client sent, as texts for users."""
        members = {
            "path": self.path,
            "?cwd": self.query,
            "X-Workspace-Cwd": self.header,
            "sandboxCwd": self.codex,
            "roots": " ".join(self.roots) if self.roots else None,
        }
        texts = {name: text[:MAX_SHOWN] for name, text in members.items() if text is not None}
        return {name: text.encode("utf-8", "replace").decode() for name, text in texts.items()}


@lru_cache(maxsize=256)  # a client repeats its claims with every call
def claims_in_order(claims: Claims) -> tuple[bool, tuple[Claim, ...]]:
    """The claims that a look-up from memory needs, and whether the first of them decides alone.

    No claims: nothing is said, or several explicit claims have to be compared.
    """
    explicit = claims.explicit_claims()
    if explicit:
        return True, explicit if len(explicit) == 1 else ()
    standing = claims.standing_claims()
    if standing:
        return True, standing[:1]
    evidence = claims.evidence()
    return len(evidence) == 1, evidence


# -- evidence ---------------------------------------------------------------------------------------------


class Finding(msgspec.Struct, frozen=True, gc=False):
    """What was found where a claim points.

    Attributes:
        place: the real folder, or the text of the claim where there is no such folder.
        workspace: id of the workspace that the folder lies in; None if it lies in none.
        problem: why it leads to no workspace.
    """

    claim: Claim
    place: str
    workspace: str | None
    problem: Refusal | None = None

    @property
    def is_certain(self) -> bool:
        """Whether the claim says where the client works, and not only where its process was started."""
        return self.claim.source in _CERTAIN

    @property
    def is_void(self) -> bool:
        """Whether it says nothing: the top of the file system as a root, which allows every folder."""
        is_root = self.claim.source is WorkspaceSource.ROOTS
        return is_root and self.workspace is None and _TOP.fullmatch(self.place) is not None

    @property
    def is_broken(self) -> bool:
        """Whether there is no such folder."""
        is_invalid = self.problem is not None and self.problem.reason is Reason.INVALID_CWD
        return is_invalid and not self.is_unanswered

    @property
    def is_unanswered(self) -> bool:
        """Whether the disk did not say what is there, so that the same request may mean something later."""
        details = None if self.problem is None else self.problem.details
        return details is not None and details.get("problem") in _UNANSWERED


class Decided(msgspec.Struct, frozen=True, gc=False):
    """The evidence leads to one workspace.

    Attributes:
        finding: what decided.
        folder_of: the finding that knows best in which folder of the workspace the client works.
        addressed_by: the claim of the address that leads to some workspace; None if there is none.
        overruled: what pointed elsewhere and was weaker.
    """

    finding: Finding
    folder_of: Finding
    addressed_by: WorkspaceSource | None = None
    overruled: tuple[Finding, ...] = ()


class Contradiction(msgspec.Struct, frozen=True, gc=False):
    """Evidence points to two places, and none of it is certain enough."""

    first: Finding
    second: Finding


class Undecided(msgspec.Struct, frozen=True, gc=False):
    """The evidence leads to no workspace (`miss` says where to), or to each of several candidates alike."""

    miss: Finding | None = None
    candidates: tuple[Finding, ...] = ()


Verdict = Decided | Contradiction | Undecided

_TOP: Final = re.compile(r"/|[A-Za-z]:[/\\]?")
_UNANSWERED: Final = frozenset(
    kind.value for kind in (CwdProblemKind.SILENT, CwdProblemKind.BUSY, CwdProblemKind.UNREADABLE)
)
_CERTAIN: Final = frozenset({WorkspaceSource.CODEX, WorkspaceSource.ROOTS})


def weigh(findings: Sequence[Finding]) -> Verdict:
    """Decide which workspace the findings mean, in the order of `Claims.evidence`.

    Returns:
        A contradiction where certain evidence disagrees with itself, where it leads to no project while other
        evidence leads to one, and where only uncertain evidence is there and disagrees. Undecided where the
        disk did not answer for evidence that counts.
    """
    said = [finding for finding in findings if not finding.is_void]
    certain = [finding for finding in said if finding.is_certain]
    uncertain = _without_broken([finding for finding in said if not finding.is_certain])
    silent = next((finding for finding in certain or uncertain if finding.is_unanswered), None)
    if silent is not None:
        return Undecided(silent)
    if not certain:
        return _agreement(uncertain)
    by_codex = [finding for finding in certain if finding.claim.source is WorkspaceSource.CODEX]
    by_roots = [finding for finding in certain if finding.claim.source is WorkspaceSource.ROOTS]
    allowed = _workspaces(by_codex or by_roots)
    of_roots = _workspaces(by_roots)
    if by_codex and by_roots and (allowed or of_roots) and allowed.isdisjoint(of_roots):
        return Contradiction(by_codex[0], by_roots[0])
    if not allowed:
        elsewhere = next((finding for finding in uncertain if finding.workspace is not None), None)
        return Undecided(certain[0]) if elsewhere is None else Contradiction(certain[0], elsewhere)
    return _among(allowed, by_codex or by_roots, uncertain)


def _among(allowed: set[str], certain: list[Finding], uncertain: list[Finding]) -> Verdict:
    """Which of the workspaces that the client works in is meant, with the help of uncertain evidence."""
    inside = [finding for finding in certain if finding.workspace is not None]
    agreeing = next((finding for finding in uncertain if finding.workspace in allowed), None)
    if agreeing is None and len(allowed) > 1:
        return Contradiction(inside[0], uncertain[0]) if uncertain else Undecided(None, tuple(inside))
    decisive = agreeing or inside[0]
    of_workspace = [finding for finding in inside if finding.workspace == decisive.workspace]
    return Decided(
        decisive,
        of_workspace[0] if len(of_workspace) == 1 else decisive,
        _address(uncertain),
        tuple(finding for finding in uncertain if finding.workspace != decisive.workspace),
    )


def _agreement(uncertain: list[Finding]) -> Verdict:
    """The one place that uncertain evidence points to."""
    if not uncertain:
        return Undecided()
    first = uncertain[0]
    other = next((finding for finding in uncertain if finding.workspace != first.workspace), None)
    if other is not None:
        return Contradiction(first, other)
    if first.workspace is None:
        return Undecided(first)
    return Decided(first, first, _address(uncertain))


def _without_broken(findings: list[Finding]) -> list[Finding]:
    """The findings whose folder exists; all of them if none does. An old entry may name a removed folder."""
    return [finding for finding in findings if not finding.is_broken] or findings


def _workspaces(findings: list[Finding]) -> set[str]:
    return {finding.workspace for finding in findings if finding.workspace is not None}


def _address(uncertain: list[Finding]) -> WorkspaceSource | None:
    return next((finding.claim.source for finding in uncertain if finding.workspace is not None), None)


def conflicting_workspaces(workspaces: Sequence[str]) -> tuple[str, str] | None:
    """The first two different workspace ids among explicit claims, or None when they agree (47110)."""
    for other in workspaces[1:]:
        if other != workspaces[0]:
            return workspaces[0], other
    return None


CODE: Final = "VARIABLE_NOT_EXPANDED"
_PLACES: Final[Mapping[str, str]] = {
    "?cwd": "?cwd= of its address",
    "X-Workspace-Cwd": "its header X-Workspace-Cwd",
    "sandboxCwd": "the folder that it works in",
    "roots": "its roots",
}
"""By the names of `Claims.shown_texts`."""


def unexpanded(sent: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each text with a variable among those that a client sent (`Claims.shown_texts`)."""
    for name, text in sent.items():
        placeholder = placeholder_in(text)
        if placeholder is not None and name in _PLACES:
            yield f"the client did not expand {placeholder} in {_PLACES[name]}"


def issues_of(claims: Claims) -> list[Issue]:
    """The issues of a request's claims, which count as not made."""
    if claims.query is None and claims.header is None and claims.codex is None and not claims.roots:
        return []
    return [Issue("warning", "workspace", CODE, text) for text in unexpanded(claims.shown_texts())]
