"""Looking up the workspace of claims, with real folders."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.answers.exchange import Located, Unlocated
from manager.answers.workspace_lookup import (
    cached_folders,
    look_up_cached,
    look_up_workspace,
    workspace_not_set,
)
from manager.configuration.settings import Settings
from manager.disk.filesystem import FolderExaminer
from manager.routing.resolution import Claims, WorkspaceSource
from manager.state_file import Store
from manager.supervision.dependencies import Dependencies
from manager.supervision.registered_servers import RegisteredServers
from manager.supervision.workspace import Workspace
from manager.supervision.workspaces import Workspaces
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
    assert at(await projects.ask(query=a, header=c, pinned=True)) == (a, WorkspaceSource.QUERY)


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


async def test_an_address_with_a_folder_that_is_gone_says_nothing(projects: Projects) -> None:
    found = await projects.ask(query="/no/such/folder", header=str(projects.a))
    assert at(found) == (str(projects.a), WorkspaceSource.HEADER)


def contradiction(outcome: object) -> Refusal:
    assert isinstance(outcome, Unlocated), outcome
    assert outcome.problem is not None
    assert outcome.problem.reason is Reason.CONFLICTING_WORKSPACE
    return outcome.problem


async def test_the_folder_that_codex_works_in_beats_that_of_its_process(projects: Projects) -> None:
    a, b = str(projects.a), str(projects.b)
    found = await projects.ask(header=a, codex=projects.b.as_uri())
    assert at(found) == (b, WorkspaceSource.CODEX)
    assert isinstance(found, Located)
    assert found.overruled == f"the client's header X-Workspace-Cwd: {a}"
    assert found.is_pure


@pytest.mark.parametrize("source", ["query", "header"])
async def test_roots_beat_the_folder_of_the_process(projects: Projects, source: str) -> None:
    a, b = str(projects.a), str(projects.b)
    found = await projects.ask(**{source: a}, roots=(projects.b.as_uri(),))
    assert at(found) == (b, WorkspaceSource.ROOTS)
    assert isinstance(found, Located)
    assert a in found.overruled


async def test_a_worktree_is_another_project_than_its_main_tree(projects: Projects) -> None:
    worktree = make_project(projects.a / ".claude/worktrees/x")
    found = await projects.ask(query=str(projects.a), roots=(worktree.as_uri(),))
    assert at(found) == (str(worktree), WorkspaceSource.ROOTS)


async def test_a_folder_within_the_project_is_told(projects: Projects) -> None:
    """That of the client's root, which knows better than the address."""
    web = projects.a / "packages/web"
    web.mkdir(parents=True)
    found = await projects.ask(query=str(projects.a), roots=(web.as_uri(),))
    assert at(found) == (str(projects.a), WorkspaceSource.QUERY)
    assert isinstance(found, Located)
    assert (found.folder, found.overruled) == ("packages/web", "")
    inside = await projects.ask(argument_cwd=str(web))
    assert isinstance(inside, Located)
    assert inside.folder == "packages/web"


async def test_evidence_that_leads_to_no_project_is_not_answered_from_another(projects: Projects) -> None:
    outside = projects.folder / "outside"
    outside.mkdir()
    for claims in ({"codex": str(outside)}, {"roots": (outside.as_uri(),)}):
        refusal = contradiction(await projects.ask(query=str(projects.a), **claims))
        assert str(outside) in refusal.message
        assert str(projects.a) in refusal.message
        assert "pin=true" in refusal.text


async def test_query_and_header_that_disagree_are_refused_naming_both(projects: Projects) -> None:
    refusal = contradiction(await projects.ask(query=str(projects.a), header=str(projects.b)))
    assert refusal.details == {"folders": [str(projects.a), str(projects.b)]}


@pytest.mark.parametrize("named", ["path", "argument_workspace", "session"])
async def test_what_is_named_is_never_overruled(projects: Projects, named: str) -> None:
    identity = await projects.known(projects.a)
    b = str(projects.b)
    found = await projects.ask(**{named: identity}, codex=b, roots=(projects.b.as_uri(),), query=b, header=b)
    assert at(found)[0] == str(projects.a)


async def test_a_call_goes_on_where_it_began(projects: Projects) -> None:
    """Its roots are not asked for again: the repeated state says which workspace they led to."""
    identity = await projects.known(projects.b)
    found = await projects.ask(state=identity, query=str(projects.a))
    assert at(found) == (str(projects.b), WorkspaceSource.STATE)
    assert isinstance(found, Located)
    assert found.is_pure
    same = await projects.ask(state=identity, query=str(projects.b))
    assert at(same) == (str(projects.b), WorkspaceSource.QUERY)


async def test_from_memory_the_same_is_decided(projects: Projects) -> None:
    a, b = str(projects.a), projects.b.as_uri()
    for claims in (
        Claims(query=a),
        Claims(query=a, roots=(b,)),
        Claims(header=a, codex=str(projects.b)),
        Claims(query=a, header=a),
        Claims(query=a, pinned=True, roots=(b,)),
    ):
        assert look_up_cached(projects.workspaces, replace(claims, query="/not/seen/yet")) is None
        found = await look_up_workspace(projects.workspaces, claims)
        assert look_up_cached(projects.workspaces, claims) == found
        assert isinstance(found, Located)
    assert look_up_cached(projects.workspaces, Claims(query=a, header=str(projects.b))) is None


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


@pytest.mark.parametrize("claim", ["query", "roots", "codex"])
async def test_a_plus_is_no_blank_where_the_folder_with_the_plus_exists(
    projects: Projects, claim: str
) -> None:
    """The folder lies in no project, but its neighbour does, whose name has a blank instead."""
    folder = projects.folder / "x+y"
    folder.mkdir()
    make_project(projects.folder / "x y")
    found = await projects.ask(**{claim: (f"file://{folder}",) if claim == "roots" else str(folder)})
    assert isinstance(found, Unlocated)


@pytest.mark.parametrize("claim", ["header", "roots"])
async def test_a_plus_outside_a_query_is_never_a_blank(projects: Projects, claim: str) -> None:
    root = make_project(projects.folder / "x y")
    text = str(root).replace(" ", "+")
    found = await projects.ask(**{claim: (f"file://{text}",) if claim == "roots" else text})
    assert isinstance(found, Unlocated)


async def test_folders_are_unknown_together_if_one_of_them_is(projects: Projects) -> None:
    a, b = str(projects.a), str(projects.b)
    await projects.ask(query=a)
    assert cached_folders(projects.workspaces, Claims(query=a, header=b)) is None
    await projects.ask(query=b)
    folders = cached_folders(projects.workspaces, Claims(query=a, header=b))
    assert folders is not None
    assert [text for text, _ in folders] == [a, b]


async def test_a_folder_of_a_workspace_that_was_just_forgotten_is_looked_up_anew(projects: Projects) -> None:
    a = str(projects.a)
    workspace = projects.workspaces.get(await projects.known(projects.a))
    assert workspace is not None
    await projects.ask(query=a, header=a)
    await projects.workspaces.forget(workspace)
    assert look_up_cached(projects.workspaces, Claims(query=a, header=a)) is None
    assert at(await projects.ask(query=a, header=a)) == (a, WorkspaceSource.QUERY)
