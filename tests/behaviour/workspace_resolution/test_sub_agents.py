"""Calls of a client whose sub-agents work in worktrees of their own, over the same connection."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers, names
from support.clients.raw_clients import Answer
from support.clients.rooted_clients import RootedStateless
from support.processes.managers.manager_in_process import RunningManager, make_project
from support.projects.git_repositories import git, repository, worktree

CLAUDE = {"name": "claude-code", "version": "2.1.332"}


@dataclass
class Repository:
    """A main tree and the worktree of a sub-agent; `client` works in the main tree."""

    main: Path
    tree: Path
    client: RootedStateless

    async def read(self, path: str, **wrapped: Any) -> Answer:
        """Read a file, and tell the roots if they are asked for."""
        params: dict[str, Any] = {"name": "lm_readFile", "arguments": {"filePath": path}}
        if wrapped:
            params = {"name": names.CALL_TOOL, "arguments": {**params, **wrapped}}
        params["_meta"] = {names.META_CLIENT: CLAUDE}
        answer = await self.client.ask(names.TOOLS_CALL, params)
        if answer.result.get("resultType") == "input_required":
            return await self.client.answered(answer, [self.main.as_uri()], params)
        return answer


@pytest.fixture
def sub_agent(manager: RunningManager, http: ClientSession, tmp_path: Path) -> Repository:
    main = repository(tmp_path / "main", who_txt="the main tree")
    tree = worktree(main, ".claude/worktrees/agent-1")
    (tree / "who.txt").write_text("the worktree")
    git(main, "worktree", "lock", "--reason", f"claude agent agent-1 (pid {os.getpid()})", str(tree))
    return Repository(main, tree, RootedStateless(http, f"{manager.address}?cwd={main}"))


def text_of(answer: Answer) -> str:
    assert not answer.result.get("isError"), answer.result
    text: str = answer.result["content"][0]["text"]
    return text


async def test_a_relative_path_while_a_sub_agent_works_is_refused_naming_both(sub_agent: Repository) -> None:
    refused = (await sub_agent.read("who.txt")).refusal
    assert refused["code"] == 47110
    assert refused["details"]["folders"] == [str(sub_agent.main), str(sub_agent.tree)]
    assert names.CALL_TOOL in refused["nextStep"]


async def test_an_absolute_path_tells_whose_the_call_is(sub_agent: Repository) -> None:
    assert "the main tree" in text_of(await sub_agent.read(f"{sub_agent.main}/who.txt"))
    assert "the worktree" in text_of(await sub_agent.read(f"{sub_agent.tree}/who.txt"))


async def test_a_named_folder_tells_whose_the_call_is(sub_agent: Repository) -> None:
    assert "the main tree" in text_of(await sub_agent.read("who.txt", cwd=str(sub_agent.main)))
    assert "the worktree" in text_of(await sub_agent.read("who.txt", cwd=str(sub_agent.tree)))


async def test_after_the_sub_agent_relative_paths_are_those_of_the_main_tree(sub_agent: Repository) -> None:
    git(sub_agent.main, "worktree", "unlock", str(sub_agent.tree))
    assert "the main tree" in text_of(await sub_agent.read("who.txt"))


async def test_an_absolute_path_in_a_third_project_leads_to_no_other_server(
    sub_agent: Repository, tmp_path: Path
) -> None:
    third = make_project(tmp_path / "third", **{"who.txt": "the third project"})
    assert (await sub_agent.read(f"{third}/who.txt")).refusal["code"] == 47110


async def test_an_absolute_path_in_a_project_inside_the_main_tree_leads_to_the_main_tree(
    sub_agent: Repository,
) -> None:
    """As without a sub-agent: the folder of the agent decides."""
    inner = make_project(sub_agent.main / "inner", **{"who.txt": "the inner project"})
    answer = await sub_agent.read(f"{inner}/who.txt")
    assert answer.headers[headers.WORKSPACE_SOURCE] == "query"
