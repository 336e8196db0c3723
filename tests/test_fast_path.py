"""The fast path of calls can be deleted: its folder and its lines in the assembly. All else works without it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from support.clients.raw_clients import SessionClient, StatelessClient
from support.processes.installations.removed_feature import FAST_PATH, PACKAGES, install_without_fast_path
from support.processes.managers.manager_process import running_manager

IMPORTS = """
import importlib, pkgutil, sys
import manager
for module in pkgutil.walk_packages(manager.__path__, "manager."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*(name for name in sys.modules if name.partition(".")[0] == "manager"))
"""
SUM = {"expression": "6 * 7"}
CALLS = 4
"""The fast path would answer the third of equal calls on a connection."""


def test_all_else_of_the_manager_is_imported_without_the_fast_path(tmp_path: Path) -> None:
    python = install_without_fast_path(tmp_path)
    ended = subprocess.run(
        [str(python), "-I", "-c", IMPORTS], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    loaded = set(ended.stdout.split())
    files = [file for file in (PACKAGES / "manager").rglob("*.py") if FAST_PATH.name not in file.parts]
    assert len(loaded) == len(files) - 1  # `__main__`
    assert not [name for name in loaded if name.startswith(f"manager.{FAST_PATH.name}")]


@pytest.mark.processes
@pytest.mark.timeout(120)
async def test_a_manager_without_the_fast_path_answers_similar_calls_of_both_eras(tmp_path: Path) -> None:
    python = str(install_without_fast_path(tmp_path))
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    with running_manager(tmp_path, python=python) as manager:
        async with ClientSession() as http:
            in_session: Any = await SessionClient.connect(http, manager.address)
            assert (await in_session.handshake(project)).payload["ok"]
            stateless = StatelessClient(http, f"{manager.address}?cwd={project}")
            for client in (in_session, stateless):
                answers = [await client.call("calculator", SUM) for _ in range(CALLS)]
                assert ["42" in answer.result["content"][0]["text"] for answer in answers] == [True] * CALLS
        assert manager.lmtb("status").returncode == 0
