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
        assert await errors(client, "user.py") == (0, "partial")
        (used.root / "user.py").write_text("import lateness\nlateness.absent\n")
        assert await errors(client, "user.py") == (0, "partial")
        environment = used.root / ".venv"
        packages = environment / "lib/python3.12/site-packages"
        packages.mkdir(parents=True)
        (environment / "bin").mkdir()
        (environment / "bin/python").symlink_to("/usr/bin/python3")
        (environment / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12\n")
        (packages / "lateness.py").write_text("")
        assert await errors(client, "user.py") == (1, "fresh")


async def test_scripts_without_configuration_are_all_asked(
    installed: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    files = {
        f"src/user_{number}.js": "import { seldom } from '../base.js';\nseldom();\n" for number in range(9)
    }
    files["base.js"] = "export function seldom() {}\n"
    monkeypatch.setenv("PATH", str(installed / "typescript-7/node_modules/.bin"), prepend=":")
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        assert await uses(client, "seldom") == (18, "partial")  # imports count
        (used.root / "jsconfig.json").write_text("{}")
        assert await uses(client, "seldom") == (18, "fresh")


SOLUTION = {
    "tsconfig.json": '{"files": [], "references": [{"path": "tsconfig.app.json"}, {"path": "tsconfig.node.json"}]}',
    "tsconfig.app.json": '{"compilerOptions": {"composite": true}, "include": ["src"], "exclude": ["src/*.test.ts"]}',
    "tsconfig.node.json": '{"compilerOptions": {"composite": true}, "include": ["scripts"]}',
    "src/core.ts": "export function target() {}\nexport { target as goal };\nexport default class Thing {}\n",
    "src/core.test.ts": 'import { target } from "./core";\ntarget();\n',
    "scripts/tool.ts": 'import { target } from "../src/core";\ntarget();\n',
    "e2e/none.ts": 'import { target } from "../src/core";\ntarget();\n',
    "e2e/alias.ts": 'import { goal } from "../src/core";\ngoal();\n',
    "e2e/default.ts": 'import Any from "../src/core";\nnew Any();\n',
}


async def test_uses_in_all_projects_of_a_solution_are_found_at_the_first_question(
    installed: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv("PATH", str(installed / "typescript-7/node_modules/.bin"), prepend=":")
    async with project_with_servers(installed, tmp_path, SOLUTION) as used, mcp.Client(used.url) as client:
        address = {"filePath": "src/core.ts", "line": 1, "symbol": "target"}
        expected = ["core.test.ts", "tool.ts", "none.ts", "alias.ts"]
        for file in (None, "e2e/default.ts", "scripts/tool.ts"):
            if file is not None:
                await structured(client, "lm_fileOutline", filePath=file)
            found = await structured(client, "lm_references", **address)
            assert found["freshness"] == [{"provider": "typescript", "state": "fresh"}]
            files = [use["workspacePath"].rpartition("/")[2] for use in found["references"]]
            assert {name for name in files if name != "core.ts"} == set(expected)
        assert (await uses(client, "Thing"))[0] == 2


async def test_a_project_of_typescript_5_waits_for_its_own_version(
    installed: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    files = {
        "package.json": '{"devDependencies": {"typescript": "^5.9.0"}}',
        "node_modules/typescript/package.json": '{"version": "5.9.3"}',
        "tsconfig.json": '{"compilerOptions": {"baseUrl": ".", "moduleResolution": "node"}}',
        "a.ts": "export function target() {}\n",
        "b.ts": 'import { target } from "a";\ntarget();\n',
    }
    monkeypatch.setenv("PATH", str(installed / "typescript-7/node_modules/.bin"), prepend=":")
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        found = await structured(client, "lm_references", symbol="target")
        (freshness,) = found["freshness"]
        assert (freshness["provider"], freshness["state"]) == ("typescript", "partial")
        assert "the project has TypeScript 5.9.3" in freshness["reason"]


async def test_files_that_the_compilation_database_lacks_are_searched_and_told(
    installed: Path, tmp_path: Path
) -> None:
    files = {**CPP, "tests/check.cpp": '#include "../include/greeting.h"\nint z = greet(2);\n'}
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        (used.root / "compile_commands.json").write_text(commands(used.root))
        found = await structured(client, "lm_references", symbol="greet")
        assert {use["workspacePath"].rpartition("/")[2] for use in found["references"]} >= {
            "user.cpp",
            "check.cpp",
        }
        (freshness,) = found["freshness"]
        assert (freshness["state"], "tests/check.cpp" in freshness["reason"]) == ("partial", True)


async def test_macros_are_found_by_name(installed: Path, tmp_path: Path) -> None:
    files = {
        "a.h": "#define WIDTH 7\n",
        "a.cpp": '#include "a.h"\nint x = WIDTH;\n',
        "compile_flags.txt": "-xc++\n",
    }
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        found = await structured(client, "lm_findSymbol", query="WIDTH")
        assert [symbol["kind"] for symbol in found["symbols"]] == ["constant"]
        outline = await structured(client, "lm_fileOutline", filePath="a.h")
        assert [symbol["namePath"] for symbol in outline["symbols"]] == ["WIDTH"]


async def test_uses_of_what_commonjs_exports_are_found(
    installed: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    files = {
        "jsconfig.json": "{}",
        "lib/utils.js": "exports.compile = function (x) { return x; };\nmodule.exports.parse = (x) => x;\n",
        "lib/app.js": "var compile = require('./utils').compile;\nvar utils = require('./utils');\nutils.parse(1);\n",
        "test/utils.js": "var utils = require('../lib/utils');\nutils.compile(1);\n",
    }
    monkeypatch.setenv("PATH", str(installed / "typescript-7/node_modules/.bin"), prepend=":")
    async with project_with_servers(installed, tmp_path, files) as used, mcp.Client(used.url) as client:
        for symbol, places in (("compile", {("app.js", 1), ("utils.js", 2)}), ("parse", {("app.js", 3)})):
            found = await structured(client, "lm_references", symbol=symbol)
            assert places <= {
                (use["workspacePath"].rpartition("/")[2], use["startLine"]) for use in found["references"]
            }
            assert found["freshness"] == [{"provider": "typescript", "state": "fresh"}]
