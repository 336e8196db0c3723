"""Looks up the workspace of a request: finds where its claims point, and has them weighed.

`routing/resolution.py` weighs them, `supervision/workspaces.py` says where a folder lies. A
sub-agent in a worktree of its own shares the connection and the roots of its parent, and nothing else says
whose a request is: such a call is refused unless paths among its arguments tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import msgspec

from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.answers.exchange import Exchange, Located, Unlocated
from manager.disk.folder import CwdProblemKind
from manager.routing.cwd import is_absolute
from manager.routing.resolution import (
    MAX_SHOWN,
    WORDS,
    Claim,
    Claims,
    Contradiction,
    Decided,
    Finding,
    Undecided,
    WorkspaceSource,
    claims_in_order,
    conflicting_workspaces,
    weigh,
)
from manager.supervision.workspaces import Placement, Workspaces, folder_in

MAX_PATHS: Final = 8
"""Paths among a call's arguments that are looked at: each costs some looks at the disk."""
MAX_LEVELS: Final = 4
"""Folders above a path that are looked at: new files are made in new folders, but seldom deeper."""
_ABSENT: Final = (CwdProblemKind.MISSING.value, CwdProblemKind.RELATIVE.value)
"""`+/home/me` is relative, with a blank it is not."""


async def look_up_workspace(workspaces: Workspaces, claims: Claims) -> Located | Unlocated | Refusal:
    """Look up the workspace that these claims mean.

    Returns:
        The workspace; `Unlocated` if no claim names one or the evidence contradicts itself; a refusal if an
        explicit claim cannot be served, or two explicit claims disagree.
    """
    explicit = await _explicit(workspaces, claims)
    if explicit is not None:
        return explicit
    standing = _standing(workspaces, claims)
    if standing is not None and standing.source is WorkspaceSource.SESSION:
        return standing
    weighed = await _weighed(workspaces, claims)
    if standing is None or (isinstance(weighed, Located) and weighed.workspace is standing.workspace):
        return weighed
    return standing


def look_up_cached(workspaces: Workspaces, claims: Claims) -> Located | None:
    """As `look_up_workspace`, from memory alone; None if the file system has to be read."""
    is_alone, in_order = claims_in_order(claims)
    if is_alone:
        return _cached_alone(workspaces, in_order[0]) if in_order else None
    findings: list[Finding] = []
    for claim in in_order:
        placement = workspaces.cached(str(claim.text))
        if placement is None:
            return None
        findings.append(_finding(claim, placement))
    verdict = weigh(findings)
    return _located(workspaces, verdict) if isinstance(verdict, Decided) else None


def cached_folders(workspaces: Workspaces, claims: Claims) -> tuple[tuple[str, Placement], ...] | None:
    """The folders that a look-up of these claims reads, each with what is known of it now.

    Returns:
        None if one of them is not known any more: who keeps the others would never look at it again.
    """
    folders = []
    for claim in claims_in_order(claims)[1]:
        if claim.is_id:
            continue
        text = str(claim.text)
        placement = workspaces.cached(text)
        if placement is None:
            return None
        folders.append((text, placement))
    return tuple(folders)


def _cached_alone(workspaces: Workspaces, claim: Claim) -> Located | None:
    if not isinstance(claim.text, str):
        return None
    if claim.source is WorkspaceSource.STATE:
        return None  # the address has to be looked at, too
    if claim.is_id:
        workspace = workspaces.get(claim.text)
        return None if workspace is None else Located(workspace, claim.source)
    placement = workspaces.cached(claim.text)
    return None if placement is None else Located(placement.workspace, claim.source, placement.folder)


async def look_up_by_paths(workspaces: Workspaces, arguments: msgspec.Raw) -> Located | None:
    """The one workspace in which absolute paths among a tool's arguments lie; None if there is none.

    For a call that nothing else leads to a workspace. Paths that lie in no project say nothing.

    Args:
        arguments: an object, as JSON text. Its members are looked at, and the elements of lists among them.
    """
    paths = list(dict.fromkeys(_absolute_paths(arguments)))
    if len(paths) > MAX_PATHS:
        return None
    placements = [await _placed_file(workspaces, path) for path in paths]
    located = {each.workspace.id: each.workspace for each in placements if each is not None}
    return Located(next(iter(located.values())), WorkspaceSource.PATHS) if len(located) == 1 else None


def _absolute_paths(arguments: msgspec.Raw) -> Iterator[str]:
    try:
        members = msgspec.json.decode(jsonrpc.bytes_of(arguments))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    for value in members.values() if isinstance(members, dict) else ():
        for text in value if isinstance(value, list) else (value,):
            if isinstance(text, str) and (is_absolute(text) or text[:5].lower() == "file:"):
                yield text


async def _placed_file(workspaces: Workspaces, path: str) -> Placement | None:
    """Where a path lies: a folder, or the nearest folder above a file or above what does not exist yet."""
    separator = "/" if "/" in path else "\\"
    for _ in range(MAX_LEVELS):
        outcome = await workspaces.place(path, ambient=False)
        if isinstance(outcome, Placement):
            return outcome
        path = path.rstrip(separator).rpartition(separator)[0]
        if outcome is None or outcome.reason is not Reason.INVALID_CWD or not path:
            return None
    return None


# -- what is named ------------------------------------------------------------------------------------------


async def _explicit(workspaces: Workspaces, claims: Claims) -> Located | Refusal | None:
    """The workspace that explicit claims name; None without such a claim."""
    located: list[Located] = []
    for claim in claims.explicit_claims():
        outcome = await _named_by(workspaces, claim)
        if isinstance(outcome, Refusal):
            return outcome
        if outcome is not None:
            located.append(outcome)
    conflict = conflicting_workspaces([each.workspace.id for each in located])
    if conflict is not None:
        return conflicting(*conflict)
    return located[0] if located else None


async def _named_by(workspaces: Workspaces, claim: Claim) -> Located | Refusal | None:
    if claim.is_id:
        workspace = workspaces.by_handle(claim.text)
        return workspace if isinstance(workspace, Refusal) else Located(workspace, claim.source)
    if claim.source in WORDS:
        outcome = await _placed(workspaces, claim)
    else:
        outcome = await workspaces.place(claim.text, ambient=False)
        outcome = outcome or Refusal(Reason.INVALID_ARGUMENTS, "expected cwd (string)")
    if outcome is None or isinstance(outcome, Refusal):
        return outcome
    return Located(outcome.workspace, claim.source, outcome.folder)


def _standing(workspaces: Workspaces, claims: Claims) -> Located | None:
    for claim in claims.standing_claims():
        workspace = workspaces.get(str(claim.text))
        if workspace is not None:
            sent = {WorkspaceSource.QUERY: claims.query, WorkspaceSource.HEADER: claims.header}
            address = next((source for source, text in sent.items() if text), None)
            is_state = claim.source is WorkspaceSource.STATE
            return Located(workspace, claim.source, addressed_by=address if is_state else None)
    return None


# -- evidence -----------------------------------------------------------------------------------------------


async def _weighed(workspaces: Workspaces, claims: Claims) -> Located | Unlocated:
    findings: list[Finding] = []
    for claim in claims.evidence():
        outcome = await _placed(workspaces, claim)
        if outcome is not None:
            findings.append(_finding(claim, outcome))
    verdict = weigh(findings)
    if isinstance(verdict, Decided):
        return _located(workspaces, verdict)
    if isinstance(verdict, Contradiction):
        return Unlocated(contradicting(verdict.first, verdict.second))
    return Unlocated(_undecided(workspaces, verdict))


def _undecided(workspaces: Workspaces, verdict: Undecided) -> Refusal | None:
    miss = verdict.miss
    if miss is not None:
        text = f"workspace not set: {WORDS[miss.claim.source]} is {_described(miss)}"
        is_told = miss.is_unanswered or not miss.is_certain
        return miss.problem if is_told else Refusal(Reason.WORKSPACE_NOT_SET, text)
    if not verdict.candidates:
        return None
    identities = list(dict.fromkeys(str(each.workspace) for each in verdict.candidates))
    known_workspaces = (workspaces.get(identity) for identity in identities)
    candidates = [
        {"workspace": workspace.id, "root": workspace.root}
        for workspace in known_workspaces
        if workspace is not None
    ]
    text = f"your roots lie in several workspaces: {', '.join(identities)}"
    return Refusal(Reason.WORKSPACE_NOT_SET, text, details={"candidates": candidates})


async def _placed(workspaces: Workspaces, claim: Claim) -> Placement | Refusal | None:
    """Where a claim points. A `+` in `?cwd=` is a blank only if there is no folder with a `+`."""
    text = str(claim.text)
    outcome = await workspaces.place(text, ambient=True)
    if claim.source is WorkspaceSource.QUERY and "+" in text and _is_absent(outcome):
        other = await workspaces.place(text.replace("+", " "), ambient=True)
        return other if isinstance(other, Placement) else outcome
    return outcome


def _is_absent(outcome: Placement | Refusal | None) -> bool:
    details = outcome.details if isinstance(outcome, Refusal) else None
    return details is not None and details.get("problem") in _ABSENT


def _finding(claim: Claim, outcome: Placement | Refusal) -> Finding:
    if isinstance(outcome, Placement):
        return Finding(claim, outcome.path, outcome.workspace.id)
    place = (outcome.details or {}).get("cwd", claim.text)
    return Finding(claim, str(place), None, outcome)


def _located(workspaces: Workspaces, verdict: Decided) -> Located:
    workspace = workspaces.get(str(verdict.finding.workspace))
    assert workspace is not None  # noqa: S101  its finding was made from it just now
    source, address = verdict.finding.claim.source, verdict.addressed_by
    return Located(
        workspace,
        source,
        folder_in(workspace, verdict.folder_of.place),
        None if address is source else address,
        ", ".join(f"{WORDS[each.claim.source]}: {_shown(each.place)}" for each in verdict.overruled),
    )


# -- refusals -----------------------------------------------------------------------------------------------


def conflicting(one: str, other: str) -> Refusal:
    """The refusal for two explicit claims that name different workspaces (47110)."""
    return Refusal(
        Reason.CONFLICTING_WORKSPACE,
        f"conflicting workspace: {one} and {other}",
        details={"workspaces": [one, other]},
    )


def contradicting(first: Finding, second: Finding) -> Refusal:
    """The refusal for evidence that points to two places (47110). It names both."""
    places = [_shown(first.place), _shown(second.place)]
    return Refusal(
        Reason.CONFLICTING_WORKSPACE,
        f"this request could mean two projects: {WORDS[first.claim.source]} is {_described(first)},"
        f" but {WORDS[second.claim.source]} is {_described(second)}",
        f"call {names.CALL_TOOL} with cwd = the absolute path of the folder that you work in, or call"
        f" {names.HANDSHAKE} with it first; a user who always wants one project adds &pin=true to ?cwd=",
        delivered="no",
        details={"folders": places},
    )


def _described(finding: Finding) -> str:
    place = _shown(finding.place)
    if finding.workspace is not None:
        return place
    return f"{place} (no such folder)" if finding.is_broken else f"{place} (in no project)"


def _shown(text: str) -> str:
    return text[:MAX_SHOWN].encode("utf-8", "replace").decode()


def workspace_not_set(unlocated: Unlocated) -> Refusal:
    """The refusal for a request that needs a workspace and has none, with the problem of its evidence."""
    return unlocated.problem or Refusal(Reason.WORKSPACE_NOT_SET, "workspace not set")


_ADDRESS = (WorkspaceSource.QUERY, WorkspaceSource.HEADER)


async def tell_callers_apart(
    workspaces: Workspaces, exchange: Exchange, located: Located, arguments: msgspec.Raw
) -> Located | Refusal:
    """The workspace of a tool call whose evidence led to `located`, or a refusal that names both folders.

    Args:
        arguments: those of the tool, an object as JSON text. Absolute paths in them tell.
    """
    if not exchange.has_sub_agents:
        return located
    worktrees = await workspaces.worktrees_of_agents(located.workspace)
    if not worktrees:
        return located
    by_paths = await look_up_by_paths(workspaces, arguments)
    if by_paths is None:
        return _ambiguous_caller(located, worktrees)
    if not any(_lies_in(by_paths.workspace.root, worktree) for worktree in worktrees):
        # an absolute path in a third project says nothing of who calls
        root = located.workspace.root
        return located if _lies_in(by_paths.workspace.root, root) else _ambiguous_caller(located, worktrees)
    address = located.addressed_by or (located.source if located.source in _ADDRESS else None)
    return Located(by_paths.workspace, by_paths.source, addressed_by=address)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _ambiguous_caller(located: Located, worktrees: tuple[str, ...]) -> Refusal:
    root = located.workspace.root
    return Refusal(
        Reason.CONFLICTING_WORKSPACE,
        f"this call could mean two folders: {root}, or the worktree of a sub-agent, {', '.join(worktrees)}",
        f"call {names.CALL_TOOL} with cwd = the absolute path of the folder that you work in, or name files"
        " by absolute paths",
        delivered="no",
        details={"folders": [root, *worktrees]},
    )
