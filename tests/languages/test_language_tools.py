"""The language tools on real servers, through a manager and with the official client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mcp

from support.projects.gateway import project_with_servers, structured

PYTHON = {
    "pyproject.toml": "[project]\nname = 'pile'\nversion = '0'\n",
    "pile/stack.py": "class Stack:\n    def push(self, x: int) -> int:\n        return x\n",
    "pile/app.py": 'from pile.stack import Stack\n\nprint("\U0001f600é", Stack().push(1))\nwrong: str = Stack().push(2)\n',
}
CPP = {
    "stack.h": "#pragma once\nstruct Stack { int push(int x); };\n",
    "stack.cpp": '#include "stack.h"\nint Stack::push(int x) { return x; }\n',
    "app.cpp": '#include "stack.h"\nint main() { Stack s; int *wrong = s.push(1); return s.push(2); }\n',
    "compile_flags.txt": "-xc++\n",
}


def places(found: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(one["workspacePath"], one["startLine"], one["startCharacter"]) for one in found]


async def test_ty_answers_all_questions(installed: Path, tmp_path: Path) -> None:
    async with project_with_servers(installed, tmp_path, PYTHON) as used, mcp.Client(used.url) as client:
        problems = await structured(client, "lm_getDiagnostics", filePath="pile/app.py")
        (file,) = problems["files"]
        assert any((one["source"], one["startLine"]) == ("ty", 4) for one in file["diagnostics"])
        uses = await structured(client, "lm_references", symbol="Stack/push")
        assert places(uses["references"]) == [("proj/pile/app.py", 3, 21), ("proj/pile/app.py", 4, 22)]
        assert uses["freshness"] == [{"provider": "ty", "state": "fresh"}]
        (used.root / "pile/app.py").write_text("from pile.stack import Stack\n\n\nStack().push(1)\n")
        assert places((await structured(client, "lm_references", symbol="push"))["references"]) == [
            ("proj/pile/app.py", 4, 9)
        ]
        clean = await structured(client, "lm_getDiagnostics", severities=["error"])
        states = {one["provider"]: one["state"] for one in clean["freshness"]}
        assert (clean["totalDiagnostics"], states) == (0, {"ty": "fresh", "ruff": "fresh"})
        shown = await structured(client, "lm_renameSymbol", symbol="Stack/push", newName="add", apply=False)
        assert "+Stack().add(1)" in shown["diff"]


async def test_clangd_answers_all_questions(installed: Path, tmp_path: Path) -> None:
    async with project_with_servers(installed, tmp_path, CPP) as used, mcp.Client(used.url) as client:
        problems = await structured(client, "lm_getDiagnostics", filePath="app.cpp")
        (file,) = problems["files"]
        assert [one["startLine"] for one in file["diagnostics"]] == [2]
        info = await structured(client, "lm_symbolInfo", filePath="app.cpp", line=2, symbol="push")
        assert "int push(int x)" in info["hover"]
        outline = await structured(client, "lm_fileOutline", filePath="stack.h")
        assert [one["namePath"] for one in outline["symbols"]] == ["Stack", "Stack/push"]
