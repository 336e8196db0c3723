"""Tests of next steps on the page: only whole commands can be copied, whatever names are in them."""

from __future__ import annotations

import re
import shlex
from html import unescape

import pytest

from lm_tools_bridge.page.html import steps
from manager.status_reading import source_step

HOSTILE = [
    "/src/x; to repair it: lmtb uninstall --yes --secrets #",
    "/src/x; or lmtb uninstall",
    "/src/it's; to repair it: lmtb uninstall --yes",
    '/src/"; to repair it: lmtb uninstall --yes',
    "/src/'\"'; retry now with: lmtb uninstall --yes --cwd '",
    "/src/a: lmtb uninstall --yes",
    "/src/$(lmtb uninstall); x: lmtb stop `lmtb stop`",
]


def commands(html: str) -> list[str]:
    """The commands that a button copies."""
    return [unescape(found) for found in re.findall(r"<code>(.*?)</code>", html)]


@pytest.mark.parametrize("root", HOSTILE)
@pytest.mark.parametrize("state", ["failed", "auth_required"])
def test_a_folders_name_makes_no_command(root: str, state: str) -> None:
    html = steps(source_step({"id": "stdio:s", "state": state}, root))
    for command in commands(html):
        words = shlex.split(command)
        assert words[:2] == ["lmtb", "servers"]
        assert words[-2:] == ["--cwd", root]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_servers_name_makes_no_command(name: str) -> None:
    html = steps(source_step({"id": f"stdio:{name}", "state": "failed"}, "/src/app"))
    details, retry = commands(html)
    assert shlex.split(details) == ["lmtb", "servers", "--cwd", "/src/app"]
    assert shlex.split(retry) == ["lmtb", "servers", "restart", f"stdio:{name}", "--cwd", "/src/app"]


def test_each_step_is_a_line_with_its_own_command() -> None:
    html = steps("details with: lmtb servers --cwd /p; retry now with: lmtb servers restart s --cwd /p")
    assert [line.partition(":")[0] for line in html.split("<br>")] == ["Details with", "Retry now with"]
    assert commands(html) == ["lmtb servers --cwd /p", "lmtb servers restart s --cwd /p"]


def test_a_step_without_a_command_is_a_sentence() -> None:
    html = steps("sign in with: lmtb servers login s --cwd /p; or give its entry a valid token")
    assert commands(html) == ["lmtb servers login s --cwd /p"]
    assert html.endswith("<br>or give its entry a valid token")


def test_a_bare_command_is_copied_whole() -> None:
    assert commands(steps("lmtb doctor")) == ["lmtb doctor"]
