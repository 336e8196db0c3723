"""Takes the pictures of the page for docs/page.md, of a manager with projects made for them.

Usage: python -m scripts.walkthrough.page_picture     Needs Chromium, and the extra `browser`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from lm_tools_bridge.protocol import headers, jsonrpc, names
from manager.configuration.paths import Paths
from manager.server_command import server_command
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment.own_manager import Manager, bound_session, manager, post, project
from support.projects.script_tools import write_tool

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
SIZE: Final[Any] = {"width": 1000, "height": 1050}
TALL: Final[Any] = {"width": 1000, "height": 1420}
"""Of the project's page, so that tools with their buttons are on it."""
PROJECTS: Final[Mapping[str, Mapping[str, str]]] = {
    "blog": {"search": "false"},
    "shop": {"stock": "python3"},
    "weather": {},
}
"""Projects and their servers. Those of the first one are trusted."""
BUSY_S: Final = 45
_MASK: Final = """folder => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(folder, "/home/ann");
}"""


def fill(one: Manager, folder: Path) -> None:
    """Open the projects, trust the first one, and call tools for a while."""
    write_tool(Path(one.environ["LMTB_CONFIG_DIR"]) / "tools", "word_count", description="Counts words.")
    asks = 'requires_approval = true\n[parameters.version]\ntype = "string"\n'
    write_tool(
        Path(one.environ["LMTB_CONFIG_DIR"]) / "tools",
        "publish",
        toml=asks,
        description="Publishes a version.",
    )
    sessions: list[str] = []
    for name, servers in PROJECTS.items():
        root = project(folder / name)
        entries = {server: {"command": program} for server, program in servers.items()}
        (root / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
        if not sessions:
            trust = [
                *server_command(Paths.of_user(one.environ), None),
                "trust",
                "--yes",
                "--json",
                "--",
                str(root),
            ]
            subprocess.run(trust, check=True, stdout=subprocess.DEVNULL)
        sessions.append(bound_session(one, root))
    _call(one, sessions)
    asking = threading.Thread(target=_call_once, args=(one, sessions[-1], "publish", {"version": "1.4.0"}))
    asking.daemon = True  # it waits for a person, and ends with the manager
    asking.start()
    while not one.control.get("/approvals")["approvals"]:
        time.sleep(0.1)


def _call(one: Manager, sessions: list[str]) -> None:
    tools = (("lm_listDirectory", {"path": "."}), ("calculator", {"expression": "7 * 0.35"}))
    end, number = time.monotonic() + BUSY_S, 0
    while time.monotonic() < end:
        tool, arguments = tools[number % len(tools)]
        _call_once(one, sessions[number % len(sessions)], tool, arguments)
        number += 1
        time.sleep(0.02 + 0.05 * abs(number % 400 - 200) / 200)  # more and less busy


def _call_once(one: Manager, session: str, tool: str, arguments: Mapping[str, object]) -> None:
    body = jsonrpc.request(b"1", names.TOOLS_CALL, {"name": tool, "arguments": arguments})
    with contextlib.suppress(OSError):  # the manager may end first
        post(one.address(), body, {headers.VERSION: REVISION, headers.SESSION: session})


async def take(one: Manager, folder: Path) -> None:
    """Take the pictures, as a browser that may act shows the pages."""
    from playwright.async_api import async_playwright

    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"), args=["--no-sandbox"]
        )
        for scheme in ("light", "dark"):
            page = await browser.new_page(viewport=SIZE, color_scheme=scheme)
            await page.goto(one.control.post("/page/ticket", {})["url"])
            await page.locator("#access").wait_for(state="hidden")
            await _picture(page, folder, DOCS / f"page-{scheme}.png")
            if scheme == "light":
                await page.locator("#projects a", has_text="shop").click()
                await page.locator("#tools table").wait_for()
                await page.set_viewport_size(TALL)
                await _picture(page, folder, DOCS / "page-project.png")
                await page.set_viewport_size(SIZE)
                await page.goto(f"{one.address().removesuffix('/mcp')}/page/calls?tool=calc*")
                await page.locator("#recorded table").wait_for()
                await _picture(page, folder, DOCS / "page-calls.png")
        await browser.close()


async def _picture(page: Any, folder: Path, file: Path) -> None:
    await page.evaluate(_MASK, str(folder))
    await page.screenshot(path=file)


def main() -> int:
    """Take the pictures; the exit code."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        with manager(folder / "user", frozenset(os.sched_getaffinity(0))) as one:
            fill(one, folder)
            asyncio.run(take(one, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
