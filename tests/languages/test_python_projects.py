"""What servers for Python must be told of a project: its environment, all of its files, and their encodings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp

from support.projects.gateway import project_with_servers, structured

PROJECT = {"pyproject.toml": "[project]\nname = 'x'\nversion = '0'\n"}


async def uses(client: mcp.Client, **address: Any) -> list[tuple[str, int, int]]:
    """Where a symbol is used: file, line and column."""
    answer = await structured(client, "lm_references", **address)
    return [
        (entry["workspacePath"].rpartition("/")[2], entry["startLine"], entry["startCharacter"])
        for entry in answer["references"]
    ]


async def errors(client: mcp.Client, **arguments: Any) -> tuple[int, str]:
    answer = await structured(client, "lm_getDiagnostics", severities=["error"], **arguments)
    return answer["totalDiagnostics"], answer["freshness"][0]["state"]


async def test_what_is_installed_beside_a_server_is_no_library_of_the_project(
    installed: Path, tmp_path: Path
) -> None:
    files = {**PROJECT, "a.py": "import basedpyright\n"}
    assert list(installed.glob("venv/lib/python3*/site-packages/basedpyright"))
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        assert await errors(client, filePath="a.py") == (0, "partial")
        (used.root / ".venv/lib/python3.12/site-packages").mkdir(parents=True)
        (used.root / ".venv/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12\n")
        assert await errors(client, filePath="a.py") == (1, "fresh")


async def test_uses_are_found_in_files_that_the_configuration_leaves_out(
    installed: Path, tmp_path: Path
) -> None:
    files = {
        "pyproject.toml": f"{PROJECT['pyproject.toml']}[tool.ty.src]\ninclude = ['src']\n",
        "src/x/__init__.py": "def seldom() -> int:\n    return 1\n",
        "tests/test_x.py": "from x import seldom\n\ny: str = seldom()\n",
    }
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        assert await uses(client, symbol="seldom") == [("test_x.py", 1, 15), ("test_x.py", 3, 10)]
        assert await errors(client) == (0, "fresh")
        assert (await errors(client, filePath="tests/test_x.py"))[0] == 1


async def test_files_in_other_encodings_have_all_their_uses_at_their_places(
    installed: Path, tmp_path: Path
) -> None:
    contents = {
        "a.py": b"def seldom():\n    return 1\n",
        "bad.py": b"from a import seldom\nx = '\xff'; y = seldom()\n",
        "latin.py": "# coding: latin-1\nfrom a import seldom\nx = 'é'; y = seldom()\n".encode("latin-1"),
        "mark.py": b"\xef\xbb\xbffrom a import seldom; seldom()\n",
    }
    files = {**PROJECT, "a.py": ""}  # the language is known from the start
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        for name, content in contents.items():
            (used.root / name).write_bytes(content)
        assert await uses(client, symbol="seldom") == [
            ("bad.py", 1, 15),
            ("bad.py", 2, 14),
            ("latin.py", 2, 15),
            ("latin.py", 3, 14),
            ("mark.py", 1, 15),
            ("mark.py", 1, 23),
        ]


async def test_a_stub_and_its_file_have_the_same_uses(installed: Path, tmp_path: Path) -> None:
    files = {
        **PROJECT,
        "m.py": "def seldom():\n    return 1\n",
        "m.pyi": "def seldom() -> int: ...\n",
        "b.py": "from m import seldom\n\nseldom()\n",
    }
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        assert await uses(client, symbol="seldom") == [("b.py", 1, 15), ("b.py", 3, 1)]
        for file in ("m.py", "m.pyi"):
            address = {"filePath": file, "line": 1, "symbol": "seldom"}
            assert await uses(client, **address) == [("b.py", 1, 15), ("b.py", 3, 1)]
