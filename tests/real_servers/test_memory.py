"""The server that remembers, started by `npx` as its README says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from support.projects.gateway import Project, eventually
from support.servers.mcp_sources.real_servers import (
    Installed,
    asked_directly,
    gathered,
    outcome,
    same_definitions,
    same_outcome,
    source_of,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
STORY: list[tuple[str, dict[str, Any]]] = [
    ("read_graph", {}),
    (
        "create_entities",
        {
            "entities": [
                {"name": "Zoë", "entityType": "person", "observations": ["drinks ☕", 'says "hi"\n']},
                {"name": "lmtb", "entityType": "program", "observations": []},
            ]
        },
    ),
    ("create_relations", {"relations": [{"from": "Zoë", "to": "lmtb", "relationType": "runs"}]}),
    ("add_observations", {"observations": [{"entityName": "lmtb", "contents": ["is quick"]}]}),
    ("add_observations", {"observations": [{"entityName": "nobody", "contents": ["is missing"]}]}),
    ("search_nodes", {"query": "quick"}),
    ("open_nodes", {"names": ["Zoë", "nobody"]}),
    ("read_graph", {}),
]


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memories")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(
    servers: Installed, memories: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Project]:
    memory = servers.npx("memory", MEMORY_FILE_PATH=str(memories / "ours.jsonl"))
    async with gathered(tmp_path_factory.mktemp("memory"), memory=memory) as made:
        yield made


async def test_it_remembers_through_us_what_it_remembers_directly(
    project: Project, servers: Installed, memories: Path
) -> None:
    """Each of the two on a file of its own."""
    other = servers.node("memory", MEMORY_FILE_PATH=str(memories / "theirs.jsonl"))
    client = project.modern
    async with asked_directly(other, project.root) as there:
        assert len(await same_definitions(client, there, "memory")) == 9
        results = [await same_outcome(client, there, f"memory__{tool}", given) for tool, given in STORY]
    assert [bool(one.get("isError")) for one in results] == [tool == 4 for tool in range(len(STORY))]
    assert len(results[-1]["structuredContent"]["entities"]) == 2
    assert (memories / "ours.jsonl").read_text() == (memories / "theirs.jsonl").read_text()


async def test_a_server_behind_npx_that_ended_is_started_again_and_remembers(
    project: Project, memories: Path
) -> None:
    """The one that answers is a grandchild of ours."""
    client = project.modern
    graph = await outcome(client, "memory__read_graph", {})
    chain = psutil.Process((await source_of(project, "stdio:memory"))["pid"])
    family = [chain, *chain.children(recursive=True)]
    assert len(family) >= 2
    family[-1].kill()

    async def again() -> bool:
        status = await source_of(project, "stdio:memory")
        return bool(status["state"] == "ready" and status["pid"] != chain.pid)

    await eventually(again, 10)
    assert await outcome(client, "memory__read_graph", {}) == graph
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family)


async def test_its_tools_cost_what_a_tokenizer_counted_in_requests_of_an_agent(project: Project) -> None:
    rows = (await project.inspect())["tools"]
    assert sum(row["tokens"] for row in rows if row["source"] == "stdio:memory") == pytest.approx(
        1295, rel=0.1
    )
