"""The pictures of the documentation: recorded again they show the same, and they need nothing from elsewhere."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import manager
from scripts.walkthrough.__main__ import COMMANDS
from scripts.walkthrough.picture import Shown, picture

pytestmark = pytest.mark.walkthroughs

ROOT = Path(manager.__file__).parents[1]
PICTURES = sorted((ROOT / "docs").glob("*.svg"))


def shown_text(svg: str) -> str:
    """What a reader of the picture reads, without blanks: words are drawn one by one."""
    return "".join(html.unescape(re.sub(r"<(style|title).*?</\1>|<[^>]+>", "", svg, flags=re.DOTALL)).split())


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.timeout(120)
def test_terminal_picture_is_recorded_from_the_real_program(tmp_path: Path) -> None:
    file = tmp_path / "terminal.svg"
    done = subprocess.run(
        [sys.executable, "-m", "scripts.walkthrough", "--output", str(file)], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    recorded, drawn = shown_text(file.read_text()), shown_text((ROOT / "docs/terminal.svg").read_text())
    for line in COMMANDS:
        typed = "~/shop$" + "".join(line.split())
        assert typed in recorded
        assert typed in drawn, "out of date; next step: scripts/pictures"
    assert "7instock" in recorded
    assert str(tmp_path.parents[1]) not in recorded


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal")
@pytest.mark.timeout(120)
def test_picture_of_the_agent_is_recorded_from_the_real_program(tmp_path: Path) -> None:
    file = tmp_path / "agent.svg"
    command = [sys.executable, "-m", "scripts.walkthrough.agent_picture", "--output", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    recorded, drawn = shown_text(file.read_text()), shown_text((ROOT / "docs/agent.svg").read_text())
    assert "╭─GUARD-ACTIONPENDING─" in recorded
    assert recorded == drawn, "out of date; next step: scripts/pictures"


@pytest.mark.always
def test_same_output_is_drawn_in_the_same_way() -> None:
    commands = [Shown("~/shop", "lmtb status", "\x1b[32mready\x1b[0m\r\n")]
    assert picture("~/shop", commands) == picture("~/shop", commands)
    assert shown_text(picture("~/shop", commands)).endswith("~/shop$lmtbstatusready")


@pytest.mark.always
@pytest.mark.parametrize("file", PICTURES, ids=lambda path: path.name)
def test_picture_is_well_formed_and_loads_nothing(file: Path) -> None:
    text = file.read_text("utf-8")
    ElementTree.fromstring(text)
    assert re.findall(r"""(?:href|src)=|url\((?!"?#)|@import|<script""", text) == []
    assert "<image" not in text


@pytest.mark.always
def test_drawn_picture_can_be_read_on_light_and_dark_pages() -> None:
    text = (ROOT / "docs/build/overview.svg").read_text("utf-8")
    assert "prefers-color-scheme: dark" in text
    assert 'class="page"' in text, "it has a background of its own"
