"""Real servers on large projects: all references of a known number, and a checkout of 2,000 files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import mcp

from lm_tools_bridge.code_intelligence.tools.word_check.project_words import MAX_LINES
from support.projects.gateway import project_with_servers, structured

PARTS: Final = 120
MODULES: Final = 2_000
SERVER_WAIT_S: Final = 100


def part(number: int) -> Mapping[str, str]:
    """A header with a template call, and a source that includes it and the header before it."""
    before = (number - 1) % PARTS
    return {
        f"part{number}/part.h": (
            '#pragma once\n#include "../base/box.h"\n'
            f"inline int part{number}(const Box<int> &box) {{ return box.get() + doubled(box.get()); }}\n"
        ),
        f"part{number}/part.cpp": (
            f'#include "part.h"\n#include "../part{before}/part.h"\n#include "../base/twice.h"\n'
            f"int use{number}() {{\n  Box<int> box{{{number}}};\n"
            f"  return part{number}(box) + part{before}(box) + twice(box.get());\n}}\n"
        ),
    }


def cpp_files() -> dict[str, str]:
    """A project of more than 200 files; each source uses what other folders declare."""
    files = {
        "base/box.h": (
            "#pragma once\n"
            "template <class T> struct Box { T value; T get() const { return value; } };\n"
            "template <class T> T doubled(T value) { return value + value; }\n"
        ),
        "base/twice.h": "#pragma once\nint twice(int value);\n",
        "base/twice.cpp": '#include "twice.h"\nint twice(int value) { return 2 * value; }\n',
    }
    for number in range(PARTS):
        files |= part(number)
    return files


def databased(root: Path, files: Mapping[str, str]) -> None:
    """Write the compilation database of the sources."""
    commands = [
        {"directory": str(root), "file": name, "arguments": ["c++", "-std=c++17", "-c", name]}
        for name in files
        if name.endswith(".cpp")
    ]
    (root / "compile_commands.json").write_text(json.dumps(commands))


async def test_clangd_finds_every_use_in_a_tree_of_240_files(installed: Path, tmp_path: Path) -> None:
    files = cpp_files()
    assert len(files) > 200
    async with project_with_servers(installed, tmp_path, {}) as used:
        for name, text in files.items():
            (used.root / name).parent.mkdir(exist_ok=True)
            (used.root / name).write_text(text)
        databased(used.root, files)
        async with mcp.Client(used.url, read_timeout_seconds=SERVER_WAIT_S + 20) as client:
            for symbol, header, line, each in (
                ("twice", "base/twice.h", 2, {"part.cpp": 1}),
                ("doubled", "base/box.h", 3, {"part.h": 1}),
                ("get", "base/box.h", 2, {"part.h": 2, "part.cpp": 1}),
                ("Box", "base/box.h", 2, {"part.h": 1, "part.cpp": 1}),
            ):
                found = await structured(
                    client,
                    "lm_references",
                    symbol=symbol,
                    filePath=header,
                    line=line,
                    limit=500,
                    waitS=SERVER_WAIT_S,
                )
                assert found["freshness"] == [{"provider": "clangd", "state": "fresh"}]
                places = [(one["workspacePath"], one["startLine"]) for one in found["references"]]
                counts = {
                    name: sum(path.endswith(f"/{name}") for path, _ in places)
                    for name in ("part.h", "part.cpp")
                }
                wanted = {name: each.get(name, 0) * PARTS for name in ("part.h", "part.cpp")}
                assert (symbol, counts) == (symbol, wanted)
                assert found["total"] == sum(wanted.values())


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.hooksPath=/dev/null")
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


async def test_a_checkout_of_2000_files_is_seen_by_the_next_answers(installed: Path, tmp_path: Path) -> None:
    async with project_with_servers(
        installed, tmp_path, {"base.py": "def target() -> int:\n    return 1\n"}
    ) as used:
        (used.root / ".gitignore").write_text(".lm-tools-bridge\n")
        git(used.root, "init", "-q", "-b", "main")
        for number in range(MODULES):
            (used.root / f"m{number}.py").write_text("from base import target\n\nx = target()\n")
        git(used.root, "add", ".")
        git(used.root, "commit", "-q", "-m", "one use each")
        git(used.root, "checkout", "-q", "-b", "other")
        for number in range(MODULES):
            text = "from base import target\n\n\nx = target()\ny: str = target()\n"
            (used.root / f"m{number}.py").write_text(text)
        git(used.root, "commit", "-q", "-am", "two uses each, one of them wrong")
        async with mcp.Client(used.url, read_timeout_seconds=SERVER_WAIT_S) as client:
            for branch, uses, errors in (("main", 1, 0), ("other", 2, 1), ("main", 1, 0)):
                git(used.root, "checkout", "-q", branch)
                found = await structured(client, "lm_references", symbol="target", waitS=60)
                (freshness,) = found["freshness"]
                is_compared = MODULES * (uses + 1) <= MAX_LINES
                assert freshness["state"] == ("fresh" if is_compared else "partial"), freshness
                imported = MODULES * (uses + 1)  # the import is a use, too
                assert (branch, found["total"], found["files"]) == (branch, imported, MODULES)
                # ruff, which is installed, too, only warns
                asked = {"severities": ["error"], "maxResults": 1, "waitS": 60}
                problems = await structured(client, "lm_getDiagnostics", **asked)
                assert (branch, problems["totalDiagnostics"]) == (branch, errors * MODULES)
