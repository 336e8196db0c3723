"""Looks up the workspace of a request: follows its claims in order until one names a workspace or is refused.

`routing/workspace/resolution.py` decides the order of the claims.
"""

from __future__ import annotations

from manager.answers.exchange import Located, Unlocated
from manager.routing.workspace.resolution import (
    Claim,
    Claims,
    WorkspaceSource,
    conflicting_workspaces,
    decisive_claim,
)
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from protocol.errors import Reason, Refusal


async def look_up_workspace(workspaces: Workspaces, claims: Claims) -> Located | Unlocated | Refusal:
    """Look up the workspace that these claims mean.

    Returns:
        The workspace; `Unlocated` if no claim names one; a refusal if an explicit claim cannot be served, or
        two explicit claims disagree.
    """
    explicit = claims.explicit_claims()
    if explicit:
        return await _explicit(workspaces, explicit)
    binding = claims.session_claim()
    if binding is not None and (bound := workspaces.get(str(binding.text))) is not None:
        return Located(bound, binding.source)
    problem: Refusal | None = None
    for claim in claims.ambient_claims():
        found = (
            workspaces.by_handle(claim.text)
            if claim.is_id
            else await workspaces.find(claim.text, ambient=True)
        )
        if isinstance(found, Workspace):
            return Located(found, claim.source)
        problem = problem or found
    return await _by_roots(workspaces, claims.roots or (), problem)


def look_up_cached(workspaces: Workspaces, claims: Claims) -> Located | None:
    """As `look_up_workspace`, from memory alone; None if the file system has to be read."""
    claim = decisive_claim(claims)
    if claim is None or not isinstance(claim.text, str):
        return None
    found = workspaces.get(claim.text) if claim.is_id else workspaces.cached(claim.text)
    return None if found is None else Located(found, claim.source)


async def _by_roots(
    workspaces: Workspaces, roots: tuple[str, ...], problem: Refusal | None
) -> Located | Unlocated:
    """The workspace that a client's roots lie in. If they lie in several, the problem lists them."""
    found: dict[str, Workspace] = {}
    for root in roots:
        one = await workspaces.find(root, ambient=True)
        if isinstance(one, Workspace):
            found[one.id] = one
    if len(found) == 1:
        return Located(next(iter(found.values())), WorkspaceSource.ROOTS)
    if found:
        candidates = [{"workspace": one.id, "root": one.root} for one in found.values()]
        text = f"your roots lie in several workspaces: {', '.join(found)}"
        return Unlocated(Refusal(Reason.WORKSPACE_NOT_SET, text, details={"candidates": candidates}))
    return Unlocated(problem)


async def _explicit(workspaces: Workspaces, claims: tuple[Claim, ...]) -> Located | Refusal:
    found: list[Workspace] = []
    for claim in claims:
        one = await _named_by(workspaces, claim)
        if isinstance(one, Refusal):
            return one
        found.append(one)
    conflict = conflicting_workspaces([one.id for one in found])
    if conflict is not None:
        return conflicting(*conflict)
    return Located(found[0], claims[0].source)


async def _named_by(workspaces: Workspaces, claim: Claim) -> Workspace | Refusal:
    if claim.is_id:
        return workspaces.by_handle(claim.text)
    found = await workspaces.find(claim.text, ambient=False)
    return found or Refusal(Reason.INVALID_ARGUMENTS, "expected cwd (string)")


def conflicting(one: str, other: str) -> Refusal:
    """The refusal for two explicit claims that name different workspaces (47110)."""
    return Refusal(
        Reason.CONFLICTING_WORKSPACE,
        f"conflicting workspace: {one} and {other}",
        details={"workspaces": [one, other]},
    )


def workspace_not_set(unlocated: Unlocated) -> Refusal:
    """The refusal for a request that needs a workspace and has none, with the problem of an ambient claim."""
    return unlocated.problem or Refusal(Reason.WORKSPACE_NOT_SET, "workspace not set")
