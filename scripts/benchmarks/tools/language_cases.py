"""The generated projects in which language servers are measured, one for each language."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.kinds.programs import ProgramFinder
from lm_tools_bridge.code_intelligence.kinds.table import KINDS

FEW: Final = 5


@dataclass(frozen=True)
class Case:
    """A language.

    Attributes:
        server: the kind of server.
        language: its `languageId`.
        files: how many files use `everywhere`; `FEW` of them use `seldom`.
        base: the file that declares the two, in lines 0 and 4.
        declarations: its lines.
        ending: of the other files.
        imports, use: of the other files; the first stands in line 0.
        column: where the names of declarations begin, from 0.
    """

    server: str
    language: str
    files: int
    base: str
    declarations: str
    ending: str
    imports: str
    use: str
    column: int

    def write(self, folder: Path) -> Path:
        """Write the project."""
        (folder / ".git").mkdir(parents=True)
        (folder / self.base).write_text(self.declarations)
        commands = []
        for number in range(self.files):
            used = ["everywhere", *(["seldom"] if number < FEW else [])]
            uses = [self.use.format(name=one) for one in used]
            name = f"user_{number:03}{self.ending}"
            (folder / name).write_text("\n".join([self.imports.format(names=", ".join(used)), *uses]) + "\n")
            commands.append({"directory": str(folder), "file": name, "command": f"c++ -c {name}"})
        if self.server == "clangd":
            (folder / "compile_commands.json").write_text(json.dumps(commands))
        if self.server == "typescript":
            (folder / "tsconfig.json").write_text('{"include": ["*.ts"]}')
        return folder

    def command(self, folder: Path) -> tuple[str, ...] | None:
        """What starts the bare server; None if it is not on the PATH."""
        for name, *arguments in KINDS[self.server].commands:
            for program in ProgramFinder([folder]).find(name, os.environ["PATH"]):
                if program.origin == "PATH":
                    return (*program.command, *arguments)
        return None


PYTHON: Final = Case(
    "ty", "python", 300, "base.py",
    "def everywhere() -> int:\n    return 1\n\n\ndef seldom() -> int:\n    return 2\n",
    ".py", "from base import {names}", "x_{name} = {name}()", 4,
)  # fmt: skip
CPP: Final = Case(
    "clangd", "cpp", 60, "base.h",
    "int everywhere();\n\n\n\nint seldom();\n",
    ".cpp", '#include "base.h"', "static int x_{name} = {name}();", 4,
)  # fmt: skip
TYPESCRIPT: Final = Case(
    "typescript", "typescript", 300, "base.ts",
    "export function everywhere() { return 1 }\n\n\n\nexport function seldom() { return 2 }\n",
    ".ts", 'import {{ {names} }} from "./base"', "export const x_{name} = {name}()", 16,
)  # fmt: skip
CASES: Final = (PYTHON, CPP, TYPESCRIPT)
