"""The set of language servers is made by the first question, once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from lm_tools_bridge.code_intelligence.workspace_part import LateServers
from support.servers.language_servers.in_memory import InMemoryServer, InMemoryServers, kind


async def test_many_first_questions_make_it_once() -> None:
    made: list[InMemoryServers] = []

    def make() -> InMemoryServers:
        made.append(InMemoryServers([InMemoryServer(kind("ty", ".py"))]))
        return made[-1]

    servers = LateServers(make)
    assert servers.status() == ()
    await servers.close()
    assert made == []
    found = await asyncio.gather(
        *(servers.for_project("symbols") for _ in range(5)),
        *(asyncio.to_thread(servers.runnable) for _ in range(5)),
    )
    assert len(made) == 1
    assert {len(one) for one in found} == {1}
    assert [one.name for one in servers.status()] == ["ty"]
    await servers.close()
    assert made[0].closed


def test_the_source_loads_nothing_that_runs_servers(tmp_path: Path) -> None:
    program = (
        "import sys, lm_tools_bridge.code_intelligence.source\n"
        "import lm_tools_bridge.code_intelligence.workspace_part\n"
        "print(*[one for one in sys.modules if '.code_intelligence.' in one])"
    )
    run = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    loaded = {one.split(".")[2] for one in run.stdout.split()}
    assert loaded == {
        "source",
        "server",
        "freshness",
        "specification",
        "checked_files",
        "tools",
        "settings",
        "workspace_part",
        "library_folders",
    }
