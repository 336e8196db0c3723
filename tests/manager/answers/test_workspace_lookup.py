"""Looking up the workspace of claims, with real folders."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from manager.answers.exchange import Located, Unlocated
from manager.answers.workspace_lookup import look_up_workspace, workspace_not_set
from manager.filesystem import FolderExaminer
from manager.routing.workspace.resolution import Claims, WorkspaceSource
from manager.settings import Settings
from manager.store import Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspaces import Workspace, Workspaces
from protocol.errors import Reason, Refusal
from support.processes.manager_in_process import make_project


class Land:
    """Three projects, the first two known already; nothing is ever started."""

    def __init__(self, workspaces: Workspaces, folder: Path) -> None:
        self.workspaces = workspaces
        self.folder = folder
        self.a, self.b, self.c = (make_project(folder / name) for name in "abc")

    async def known(self, root: Path) -> str:
        found = await self.workspaces.find(str(root), ambient=False)
        assert isinstance(found, Workspace)
        return found.id

    async def ask(self, **claims: Any) -> Located | Unlocated | Refusal:
        return await look_up_workspace(self.workspaces, replace(Claims(), **claims))


@pytest.fixture
async def land(tmp_path: Path) -> AsyncIterator[Land]:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    dependencies = Dependencies(Settings(match_wait_s=0), store, tmp_path, os.environ)
    examiner = FolderExaminer()
    registered_servers = RegisteredServers(dependencies, examiner)
    workspaces = Workspaces(dependencies, examiner, registered_servers, home=tmp_path / "home", windows=False)
    yield Land(workspaces, tmp_path)
    await workspaces.close()
    await registered_servers.close()
    await store.close()


def at(outcome: object) -> tuple[str, WorkspaceSource]:
    assert isinstance(outcome, Located), outcome
    return outcome.workspace.root, outcome.source


def refused(outcome: object) -> Refusal:
    assert isinstance(outcome, Refusal), outcome
    return outcome


async def test_every_claim_alone_leads_to_its_workspace(land: Land) -> None:
    identity, a = await land.known(land.a), str(land.a)
    assert at(await land.ask(path=identity)) == (a, WorkspaceSource.PATH)
    assert at(await land.ask(argument_workspace=identity)) == (a, WorkspaceSource.ARGUMENT)
    assert at(await land.ask(argument_cwd=a)) == (a, WorkspaceSource.ARGUMENT)
    assert at(await land.ask(session=identity)) == (a, WorkspaceSource.SESSION)
    assert at(await land.ask(query=a)) == (a, WorkspaceSource.QUERY)
    assert at(await land.ask(header=a)) == (a, WorkspaceSource.HEADER)


async def test_each_claim_beats_those_after_it(land: Land) -> None:
    a, b, c = str(land.a), str(land.b), str(land.c)
    ida, idb = await land.known(land.a), await land.known(land.b)
    assert at(await land.ask(path=ida, session=idb, query=c, header=c)) == (a, WorkspaceSource.PATH)
    assert at(await land.ask(argument_workspace=ida, session=idb, query=c)) == (a, WorkspaceSource.ARGUMENT)
    assert at(await land.ask(argument_cwd=a, session=idb, header=c)) == (a, WorkspaceSource.ARGUMENT)
    assert at(await land.ask(session=idb, query=a, header=c)) == (b, WorkspaceSource.SESSION)
    assert at(await land.ask(query=a, header=c)) == (a, WorkspaceSource.QUERY)


async def test_explicit_claims_can_agree(land: Land) -> None:
    identity = await land.known(land.a)
    found = await land.ask(path=identity, argument_workspace=identity, argument_cwd=str(land.a))
    assert at(found) == (str(land.a), WorkspaceSource.PATH)


async def test_explicit_claims_that_disagree_are_refused_naming_both(land: Land) -> None:
    """47110."""
    ida, idb = await land.known(land.a), await land.known(land.b)
    for claims in (
        {"path": ida, "argument_workspace": idb},
        {"path": ida, "argument_cwd": str(land.b)},
        {"argument_workspace": ida, "argument_cwd": str(land.b)},
    ):
        refusal = refused(await land.ask(**claims))
        assert refusal.reason is Reason.CONFLICTING_WORKSPACE
        assert refusal.message == f"conflicting workspace: {ida} and {idb}"
        assert refusal.details == {"workspaces": [ida, idb]}


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"argument_workspace": "never-heard-of"}, Reason.WORKSPACE_NOT_MATCHED),
        ({"argument_workspace": 7}, Reason.WORKSPACE_NOT_MATCHED),
        ({"path": "never-heard-of"}, Reason.WORKSPACE_NOT_MATCHED),
        ({"argument_cwd": "relative/path"}, Reason.INVALID_CWD),
        ({"argument_cwd": "/no/such/folder"}, Reason.INVALID_CWD),
        ({"argument_cwd": "/"}, Reason.WORKSPACE_NOT_MATCHED),
    ],
)
async def test_an_unmatched_explicit_claim_is_refused(
    land: Land, claims: dict[str, Any], reason: Reason
) -> None:
    """Nothing below it is asked instead."""
    identity = await land.known(land.a)
    assert refused(await land.ask(session=identity, query=str(land.a), **claims)).reason is reason


async def test_the_refusal_names_known_workspaces(land: Land) -> None:
    """The table of refusals."""
    ids = [await land.known(land.a), await land.known(land.b)]
    refusal = refused(await land.ask(argument_workspace="ghost"))
    assert refusal.message == "workspace not matched: ghost"
    assert refusal.details == {"workspace": "ghost", "known": ids}


async def test_an_unmatched_ambient_claim_falls_through(land: Land) -> None:
    found = await land.ask(query="/no/such/folder", header=str(land.a))
    assert at(found) == (str(land.a), WorkspaceSource.HEADER)


@pytest.mark.parametrize("text", ["", "  ", "${PWD}", "$PWD", "%CD%", "{env:PWD}", "${workspaceFolder}"])
async def test_an_unexpanded_placeholder_is_ignored(land: Land, text: str) -> None:
    assert await land.ask(query=text) == Unlocated(None)
    assert at(await land.ask(query=text, header=str(land.a))) == (str(land.a), WorkspaceSource.HEADER)


async def test_an_unmatched_ambient_folder_is_named_in_the_refusal(land: Land) -> None:
    outcome = await land.ask(query="/no/such/folder", header="also/bad")
    assert isinstance(outcome, Unlocated)
    refusal = workspace_not_set(outcome)
    assert refusal.reason is Reason.INVALID_CWD
    assert "/no/such/folder" in refusal.message


async def test_without_claims_there_is_no_workspace(land: Land) -> None:
    outcome = await land.ask()
    assert outcome == Unlocated(None)
    refusal = workspace_not_set(Unlocated(None))
    assert (refusal.reason, refusal.message) == (Reason.WORKSPACE_NOT_SET, "workspace not set")


async def test_a_binding_to_a_removed_workspace_is_skipped(land: Land) -> None:
    assert await land.ask(session="forgotten") == Unlocated(None)
    assert at(await land.ask(session="forgotten", query=str(land.a))) == (str(land.a), WorkspaceSource.QUERY)


async def test_only_claims_of_the_address_are_pure(land: Land) -> None:
    identity, a = await land.known(land.a), str(land.a)
    claims = {
        "path": {"path": identity},
        "query": {"query": a},
        "header": {"header": a},
        "argument": {"argument_cwd": a},
        "session": {"session": identity},
    }
    located = {source: await land.ask(**claim) for source, claim in claims.items()}
    pure = {source for source, found in located.items() if isinstance(found, Located) and found.is_pure}
    assert pure == {"path", "query", "header"}
