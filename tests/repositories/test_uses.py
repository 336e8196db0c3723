"""Uses of symbols in source trees of others: never wrong and `fresh`, nearly always complete, else with a reason."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import mcp
import pytest

from support.projects.gateway import running_gateway
from support.projects.public_repository import REPOSITORIES, PublicRepository, ask_uses
from support.servers.language_servers.real_language_servers import INSTALLED_PROGRAMS

READ_S = 300
"""Longest time in which servers read a tree, before the first question that counts."""


@pytest.fixture(params=REPOSITORIES)
def repository(request: pytest.FixtureRequest, trees: Path) -> PublicRepository:
    """Each repository whose tree could be had."""
    name: str = request.param
    absent = trees / "absent"
    for line in absent.read_text().splitlines() if absent.exists() else ():
        if line.startswith(f"{name}: "):
            pytest.skip(line)
    return PublicRepository.read(name)


async def test_answers_are_complete_or_say_why_not(
    repository: PublicRepository,
    trees: Path,
    installed: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs = [str(installed / folder) for folder in (*INSTALLED_PROGRAMS, "npm/node_modules/.bin")]
    monkeypatch.setenv("PATH", os.pathsep.join([*programs, os.environ["PATH"]]))
    monkeypatch.setenv("CARGO_NET_OFFLINE", "true")
    monkeypatch.setenv("GOPROXY", "off")
    verdicts: Counter[str] = Counter()
    faults = []
    async with running_gateway(tmp_path) as gateway:
        project = gateway.project("proj")
        repository.unpack(trees / "trees", project.root, installed)
        await project.trust()
        async with mcp.Client(project.url) as client:
            first = {"query": repository.symbols[0].name, "waitS": READ_S}
            await client.call_tool("lm_findSymbol", first)
            for symbol in repository.symbols:
                answer = await ask_uses(client, symbol)
                verdict = symbol.judge(answer)
                verdicts[verdict] += 1
                if verdict in {"incomplete", "wrong"}:
                    faults.append(f"{verdict}: {symbol.fault(answer)}")
                assert answer.is_fresh or answer.reason
                assert "failed unexpectedly" not in answer.reason
    print(repository.name, dict(verdicts), *faults, sep="\n")
    assert not verdicts["wrong"], faults
    reached = repository.members["reached"]
    assert verdicts["complete"] + verdicts["marked"] >= reached, faults
