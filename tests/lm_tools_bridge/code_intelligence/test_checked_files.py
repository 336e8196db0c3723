"""Which files a tool's command line reports about, by the patterns of its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.checked_files import CheckedFiles

ROOT = Path("/proj")


@pytest.mark.parametrize(
    ("include", "exclude", "inside", "outside"),
    [
        (["src", "tests/type_check"], [], ["src/a.py", "tests/type_check/b.py"], ["tests/a.py", "srcs/a.py"]),
        ([], ["**/node_modules", "**/.*"], ["a.py", "x/node.py"], [".tox/a.py", "x/node_modules/y/a.py"]),
        (["./src/"], ["src/**/generated"], ["src/a.py"], ["src/generated/a.py", "src/x/y/generated/a.py"]),
        (["**/*.pyi"], [], ["a.pyi", "x/y.pyi"], ["a.py"]),
        (["pkg-?/[x]"], [], ["pkg-1/[x]/a.py"], ["pkg-1/x/a.py", "pkg-12/[x]/a.py"]),
        (["."], ["a.py"], ["b.py"], ["a.py"]),
    ],
)
def test_files_are_told_apart(
    include: list[str], exclude: list[str], inside: list[str], outside: list[str]
) -> None:
    checked = CheckedFiles(ROOT, tuple(include), tuple(exclude))
    assert [name for name in (*inside, *outside) if checked.has(ROOT / name)] == inside


def test_files_of_another_folder_are_not_decided_about() -> None:
    assert CheckedFiles(ROOT, ("src",)).has(Path("/other/a.py"))


def test_a_hostile_pattern_takes_no_time() -> None:
    pattern = "/".join(["**", "*a" * 100] * 100)
    assert not CheckedFiles(ROOT, (pattern,)).has(ROOT / "/".join(["a" * 100] * 30))
