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
from manager.configuration.settings import Settings
from manager.disk.filesystem import FolderExaminer
from manager.routing.workspace.resolution import Claims, WorkspaceSource
from manager.state_file.store import Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.registration.registered_servers import RegisteredServers
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
from protocol.errors import Reason, Refusal
from support.processes.managers.manager_in_process import make_project


class Projects:
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
async def projects(tmp_path: Path) -> AsyncIterator[Projects]:
    store = Store(tmp_path / "state.db", set_aside_name=lambda: "x")
    await store.open()
    dependencies = Dependencies(Settings(match_wait_s=0), store, tmp_path, os.environ)
    examiner = FolderExaminer()
    registered_servers = RegisteredServers(dependencies, examiner)
    workspaces = Workspaces(dependencies, examiner, registered_servers, home=tmp_path / "home", windows=False)
    yield Projects(workspaces, tmp_path)
    await workspaces.close()
    await registered_servers.close()
    await store.close()


def at(outcome: object) -> tuple[str, WorkspaceSource]:
    assert isinstance(outcome, Located), outcome
    return outcome.workspace.root, outcome.source


def refused(outcome: object) -> Refusal:
    assert isinstance(outcome, Refusal), outcome
    return outcome


async def test_every_claim_alone_leads_to_its_workspace(projects: Projects) -> None:
    identity, a = await projects.known(projects.a), str(projects.a)
    assert at(await projects.ask(path=identity)) == (a, WorkspaceSource.PATH)
    assert at(await projects.ask(argument_workspace=identity)) == (a, WorkspaceSource.ARGUMENT)
    assert at(await projects.ask(argument_cwd=a)) == (a, WorkspaceSource.ARGUMENT)
    assert at(await projects.ask(session=identity)) == (a, WorkspaceSource.SESSION)
    assert at(await projects.ask(query=a)) == (a, WorkspaceSource.QUERY)
    assert at(await projects.ask(header=a)) == (a, WorkspaceSource.HEADER)


async def test_each_claim_beats_those_after_it(projects: Projects) -> None:
    a, b, c = str(projects.a), str(projects.b), str(projects.c)
    ida, idb = await projects.known(projects.a), await projects.known(projects.b)
    assert at(await projects.ask(path=ida, session=idb, query=c, header=c)) == (a, WorkspaceSource.PATH)
    assert at(await projects.ask(argument_workspace=ida, session=idb, query=c)) == (
        a,
        WorkspaceSource.ARGUMENT,
    )
    assert at(await projects.ask(argument_cwd=a, session=idb, header=c)) == (a, WorkspaceSource.ARGUMENT)
    assert at(await projects.ask(session=idb, query=a, header=c)) == (b, WorkspaceSource.SESSION)
    assert at(await projects.ask(query=a, header=c)) == (a, WorkspaceSource.QUERY)


async def test_explicit_claims_can_agree(projects: Projects) -> None:
    identity = await projects.known(projects.a)
    found = await projects.ask(path=identity, argument_workspace=identity, argument_cwd=str(projects.a))
    assert at(found) == (str(projects.a), WorkspaceSource.PATH)


async def test_explicit_claims_that_disagree_are_refused_naming_both(projects: Projects) -> None:
    """47110."""
    ida, idb = await projects.known(projects.a), await projects.known(projects.b)
    for claims in (
        {"path": ida, "argument_workspace": idb},
        {"path": ida, "argument_cwd": str(projects.b)},
        {"argument_workspace": ida, "argument_cwd": str(projects.b)},
    ):
        refusal = refused(await projects.ask(**claims))
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
    projects: Projects, claims: dict[str, Any], reason: Reason
) -> None:
    """Nothing below it is asked instead."""
    identity = await projects.known(projects.a)
    assert refused(await projects.ask(session=identity, query=str(projects.a), **claims)).reason is reason


async def test_the_refusal_names_known_workspaces(projects: Projects) -> None:
    """The table of refusals."""
    ids = [await projects.known(projects.a), await projects.known(projects.b)]
    refusal = refused(await projects.ask(argument_workspace="ghost"))
    assert refusal.message == "workspace not matched: ghost"
    assert refusal.details == {"workspace": "ghost", "known": ids}


async def test_an_unmatched_ambient_claim_falls_through(projects: Projects) -> None:
    found = await projects.ask(query="/no/such/folder", header=str(projects.a))
    assert at(found) == (str(projects.a), WorkspaceSource.HEADER)


@pytest.mark.parametrize("text", ["", "  ", "${PWD}", "$PWD", "%CD%", "{env:PWD}", "${workspaceFolder}"])
async def test_an_unexpanded_placeholder_is_ignored(projects: Projects, text: str) -> None:
    assert await projects.ask(query=text) == Unlocated(None)
    assert at(await projects.ask(query=text, header=str(projects.a))) == (
        str(projects.a),
        WorkspaceSource.HEADER,
    )


async def test_an_unmatched_ambient_folder_is_named_in_the_refusal(projects: Projects) -> None:
    outcome = await projects.ask(query="/no/such/folder", header="also/bad")
    assert isinstance(outcome, Unlocated)
    refusal = workspace_not_set(outcome)
    assert refusal.reason is Reason.INVALID_CWD
    assert "/no/such/folder" in refusal.message


async def test_without_claims_there_is_no_workspace(projects: Projects) -> None:
    outcome = await projects.ask()
    assert outcome == Unlocated(None)
    refusal = workspace_not_set(Unlocated(None))
    assert (refusal.reason, refusal.message) == (Reason.WORKSPACE_NOT_SET, "workspace not set")


async def test_a_binding_to_a_removed_workspace_is_skipped(projects: Projects) -> None:
    assert await projects.ask(session="forgotten") == Unlocated(None)
    assert at(await projects.ask(session="forgotten", query=str(projects.a))) == (
        str(projects.a),
        WorkspaceSource.QUERY,
    )


async def test_only_claims_of_the_address_are_pure(projects: Projects) -> None:
    identity, a = await projects.known(projects.a), str(projects.a)
    claims = {
        "path": {"path": identity},
        "query": {"query": a},
        "header": {"header": a},
        "argument": {"argument_cwd": a},
        "session": {"session": identity},
    }
    located = {source: await projects.ask(**claim) for source, claim in claims.items()}
    pure = {source for source, found in located.items() if isinstance(found, Located) and found.is_pure}
    assert pure == {"path", "query", "header"}
