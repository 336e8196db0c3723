"""Worktrees of one repository: what was trusted in one runs in the others, and nothing else does."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from support.projects.gateway import Gateway, Project, codes, eventually, listed, text_of
from support.projects.git_repositories import git, worktree
from support.servers.mcp_sources.stdio_servers import source
from workspace_server.trust.store import TrustStore

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.processes]
SERVER = source('serve(lambda m: answer(m["id"], text(os.getcwd())))')


def repository_of(gateway: Gateway, name: str) -> Project:
    """A project in git that brings a server along."""
    project = gateway.project(name, **{"server.py": SERVER})
    project.servers(here={"command": sys.executable, "args": ["-I", "server.py"]})
    git(project.root, "init", "-q")
    git(project.root, "add", "-A")
    git(project.root, "commit", "-qm", "first")
    return project


async def until_stored(project: Project) -> None:
    """Wait until the server's list is stored for later: that is done after clients have it."""
    await project.until_listed("here__echo")
    lists = project.gateway.manager.paths.state_dir / "lists"

    async def is_stored() -> bool:
        after = project.root.joinpath("server.py").stat().st_mtime
        return any(
            file.stat().st_mtime >= after and b'"echo"' in file.read_bytes() for file in lists.glob("*.json")
        )

    await eventually(is_stored)


def tree_of(project: Project, name: str) -> Project:
    return Project(project.gateway, worktree(project.root, f".claude/worktrees/{name}"))


async def untrust(project: Project) -> None:
    store = TrustStore(project.gateway.manager.paths.state_dir / "trust")
    await asyncio.to_thread(store.untrust, project.root)


async def test_a_new_worktree_has_all_tools_before_its_own_server_ran(gateway: Gateway) -> None:
    main = repository_of(gateway, "worked-on")
    await main.trust()
    await until_stored(main)
    tree = tree_of(main, "feat")
    await tree.until_listed("here__echo")
    (state,) = [row for row in (await tree.inspect())["sources"] if row["id"] == "stdio:here"]
    assert (state["state"], state["pid"], state["stale"]) == ("idle", None, True)
    assert "TRUST_PENDING" not in await codes(tree.modern)
    assert Path(await text_of(tree.modern, "here__echo")) == tree.root
    assert Path(await text_of(main.modern, "here__echo")) == main.root


async def test_what_differs_in_a_worktree_waits_there_only(gateway: Gateway) -> None:
    main = repository_of(gateway, "branched")
    await main.trust()
    await until_stored(main)
    tree = tree_of(main, "feat")
    await tree.until_listed("here__echo")
    (tree.root / "server.py").write_text("import pathlib; pathlib.Path('ran').touch()\n")
    assert "here__echo" not in await listed(tree.modern)
    assert "TRUST_PENDING" in await codes(tree.modern)
    await main.until_listed("here__echo")
    assert not (tree.root / "ran").exists()


async def test_what_is_revoked_in_one_worktree_ends_in_all(gateway: Gateway) -> None:
    main = repository_of(gateway, "revoked")
    await main.trust()
    await until_stored(main)
    trees = [tree_of(main, "one"), tree_of(main, "two")]
    for tree in trees:
        await tree.until_listed("here__echo")
    await untrust(trees[0])
    for project in (main, *trees):
        assert "here__echo" not in await listed(project.modern)


async def test_a_folder_that_claims_to_be_a_worktree_gets_nothing(gateway: Gateway) -> None:
    main = repository_of(gateway, "claimed")
    await main.trust()
    await until_stored(main)
    true_tree = tree_of(main, "feat")
    hostile = gateway.project("hostile", **{"server.py": SERVER})
    hostile.servers(here={"command": sys.executable, "args": ["-I", "server.py"]})
    (hostile.root / ".git").rmdir()
    for claim in (f"{main.root}/.git/worktrees/feat", f"{main.root}/.git"):
        (hostile.root / ".git").write_text(f"gitdir: {claim}\n")
        assert "here__echo" not in await listed(hostile.modern)
    await true_tree.until_listed("here__echo")

    async def is_pending() -> bool:
        return "TRUST_PENDING" in await codes(hostile.modern)

    await eventually(is_pending)
