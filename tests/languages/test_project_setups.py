"""What says how a project is built comes late, breaks or is missing: real servers tell, or are started again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mcp

from support.projects.gateway import project_with_servers, structured

CPP = {
    "include/greeting.h": "int greet(int x);\n",
    "greeting.cpp": '#include "greeting.h"\nint greet(int x) { return x; }\n',
    "user.cpp": '#include "greeting.h"\nint y = greet(1);\n',
}


def commands(root: Path) -> str:
    return json.dumps(
        [
            {"directory": str(root), "file": name, "arguments": ["c++", "-Iinclude", "-c", name]}
            for name in CPP
            if name.endswith(".cpp")
        ]
    )


async def uses(client: mcp.Client, symbol: str) -> tuple[int, str]:
    found = await structured(client, "lm_references", symbol=symbol)
    return found["total"], found["freshness"][0]["state"]


async def errors(client: mcp.Client, file: str) -> tuple[int, str]:
    found = await structured(client, "lm_getDiagnostics", filePath=file, severities=["error"])
    return found["totalDiagnostics"], found["freshness"][0]["state"]


async def test_a_compilation_database_counts_as_soon_as_it_is_there(installed: Path, tmp_path: Path) -> None:
    async with project_with_servers(installed, tmp_path, CPP) as used, mcp.Client(used.url) as client:
        count, state = await errors(client, "user.cpp")
        assert (count > 0, state) == (True, "unknown")
        database = used.root / "compile_commands.json"
        database.write_text(commands(used.root))
        assert await errors(client, "user.cpp") == (0, "fresh")
        assert await uses(client, "greet") == (1, "fresh")
        database.write_text("[{")
        assert (await errors(client, "user.cpp"))[1] == "partial"
        database.write_text(commands(used.root))
        assert await errors(client, "user.cpp") == (0, "fresh")


async def test_a_library_counts_as_soon_as_it_is_installed(installed: Path, tmp_path: Path) -> None:
    files = {"pyproject.toml": "[project]\nname = 'x'\nversion = '0'\n", "user.py": "import lateness\n"}
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        assert await errors(client, "user.py") == (1, "fresh")
        environment = used.root / ".venv"
        packages = environment / "lib/python3.12/site-packages"
        packages.mkdir(parents=True)
        (environment / "bin").mkdir()
        (environment / "bin/python").symlink_to("/usr/bin/python3")
        (environment / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12\n")
        (packages / "lateness.py").write_text("")
        assert await errors(client, "user.py") == (0, "fresh")


async def test_scripts_without_configuration_are_all_asked(
    installed: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    files = {
        f"src/user_{number}.js": "import { seldom } from '../base.js';\nseldom();\n" for number in range(9)
    }
    files["base.js"] = "export function seldom() {}\n"
    monkeypatch.setenv("PATH", str(installed / "typescript-7/node_modules/.bin"), prepend=":")
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        assert await uses(client, "seldom") == (9, "partial")
        (used.root / "jsconfig.json").write_text("{}")
        assert await uses(client, "seldom") == (9, "fresh")
