"""Servers made with the official Python SDK, each with other libraries than ours: git, time and fetch."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from support.projects.gateway import Project
from support.servers.mcp_sources.real_servers import (
    Entry,
    Installed,
    asked_directly,
    gathered,
    outcome,
    same_definitions,
    same_outcome,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
PAGE = "<html><title>t</title><body><h1>Größe</h1><p>" + "Many words. " * 60 + "</p></body></html>"


@pytest.fixture(scope="module")
def entries(servers: Installed) -> dict[str, Entry]:
    return {
        "git": servers.python("git", "--repository", "."),
        "time": servers.python("time", "--local-timezone=Europe/Berlin"),
        "fetch": servers.python("fetch", "--allow-private-ips", "--ignore-robots-txt"),
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def project(
    entries: dict[str, Entry], tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Project]:
    async with gathered(tmp_path_factory.mktemp("python"), repository, **entries) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site() -> AsyncIterator[str]:
    """A site with one page."""

    async def page(_: web.Request) -> web.Response:
        return web.Response(text=PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/page", page)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    place = web.TCPSite(runner, "127.0.0.1", 0)
    await place.start()
    yield f"http://127.0.0.1:{place.port}"
    await runner.cleanup()


def git(root: Path, *words: str) -> None:
    me = {
        f"GIT_{who}_{what}": "me@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    quiet = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(root.parent), "PATH": os.environ["PATH"]}
    subprocess.run(["git", *words], cwd=root, env={**me, **quiet}, check=True, capture_output=True)


def repository(root: Path) -> None:
    """One commit, and a change that is not in it."""
    git(root, "init", "-q", "-b", "main")
    (root / "a.txt").write_text("one\n")
    git(root, "add", "a.txt")
    git(root, "commit", "-q", "-m", "Grüße")
    (root / "a.txt").write_text("one\ntwo\n")


async def compared(
    project: Project, entries: dict[str, Entry], namespace: str, calls: list[tuple[str, dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Definitions and these calls, both ways."""
    client = project.modern
    async with asked_directly(entries[namespace], project.root) as there:
        await same_definitions(client, there, namespace)
        return [await same_outcome(client, there, f"{namespace}__{tool}", given) for tool, given in calls]


async def test_git(project: Project, entries: dict[str, Entry]) -> None:
    here = {"repo_path": str(project.root)}
    results = await compared(
        project,
        entries,
        "git",
        [
            ("git_status", here),
            ("git_diff_unstaged", {**here, "context_lines": 1}),
            ("git_log", {**here, "max_count": 1}),
            ("git_show", {**here, "revision": "HEAD"}),
            ("git_branch", {**here, "branch_type": "local"}),
            ("git_show", {**here, "revision": "nowhere"}),
            ("git_status", {"repo_path": "/"}),
        ],
    )
    texts = [one["content"][0]["text"] for one in results]
    assert "modified:   a.txt" in texts[0]
    assert "+two" in texts[1]
    assert "Grüße" in texts[2]
    assert [bool(one.get("isError")) for one in results] == [False] * 5 + [True] * 2
    await outcome(project.modern, "git__git_add", {**here, "files": ["a.txt"]})
    (staged,) = await compared(project, entries, "git", [("git_diff_staged", here)])
    assert "+two" in staged["content"][0]["text"]


async def test_time(project: Project, entries: dict[str, Entry]) -> None:
    noon = {"time": "12:00", "target_timezone": "Asia/Tokyo"}
    results = await compared(
        project,
        entries,
        "time",
        [
            ("convert_time", {**noon, "source_timezone": "Europe/Berlin"}),
            ("convert_time", {**noon, "source_timezone": "Nowhere/At_All"}),
            ("get_current_time", {"timezone": "Nowhere/At_All"}),
        ],
    )
    assert results[0]["structuredContent"]["target"]["timezone"] == "Asia/Tokyo"
    assert [bool(one.get("isError")) for one in results] == [False, True, True]


async def test_fetch(project: Project, entries: dict[str, Entry], site: str) -> None:
    results = await compared(
        project,
        entries,
        "fetch",
        [
            ("fetch", {"url": f"{site}/page"}),
            ("fetch", {"url": f"{site}/page", "raw": True, "max_length": 40, "start_index": 5}),
            ("fetch", {"url": f"{site}/none"}),
        ],
    )
    assert "Many words." in results[0]["content"][0]["text"]
    assert [bool(one.get("isError")) for one in results] == [False, False, True]
