"""Takes the pictures of the page for docs/page.md, of a manager with projects made for them.

Usage: python -m scripts.walkthrough.page_picture     Needs Chromium, and the extra `browser`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from scripts.benchmarks.environment.own_manager import Manager, manager
from scripts.walkthrough.page_scene import scene

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
SIZE: Final[Any] = {"width": 1280, "height": 1050}
TALL: Final[Any] = {"width": 1280, "height": 1250}
"""Of the project's page, so that tools with their buttons are on it."""
BUSY_S: Final = 30
"""So long agents work before the pictures, so that the charts have lines."""
_MASK: Final = """folder => {
  window.show = () => undefined;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(folder, "/home/ann");
}"""
"""Hides where the example projects are. No change is shown after that, which would bring the name back."""


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
                await page.goto(f"{one.address().removesuffix('/mcp')}/page/calls?tool=git*")
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
        with manager(folder / "user", frozenset(os.sched_getaffinity(0))) as one, scene(one, folder):
            time.sleep(BUSY_S)
            asyncio.run(take(one, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
