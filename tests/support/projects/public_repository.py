"""A source tree that others wrote, as a project, with the true uses of some of its symbols.

The uses were found without this program: as whole words in code by the lexers of Pygments, then read by hand where
a name has several meanings: `uses` are the symbol's, `others` another symbol's. Lines in neither may be named or not:
other declarations that a language joins with the symbol, strings that name it, and what only a run could tell.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import mcp

USES = Path(__file__).parents[2] / "repositories" / "uses"
REPOSITORIES = sorted(file.stem for file in USES.glob("*.json"))
MOST_PAGES = 20
"""Pages of one answer that are read."""
Line = tuple[str, int]
Verdict = Literal["complete", "marked", "incomplete", "wrong"]
"""Of an answer: all uses and `fresh`; all uses, but the answer does not say that these are all; not all, and the
answer says so; not all, or another symbol's, and the answer is `fresh`."""


@dataclass(frozen=True)
class Answer:
    """What an answer says: the lines that are uses, those that may be, whether it is fresh, and its reasons."""

    proven: frozenset[Line] = frozenset()
    possible: frozenset[Line] = frozenset()
    is_fresh: bool = False
    reason: str = ""

    @property
    def lines(self) -> frozenset[Line]:
        """All lines that a reader is told."""
        return self.proven | self.possible


@dataclass(frozen=True)
class KnownSymbol:
    """A symbol, its true uses with its declaration, and other symbols of its name."""

    name: str
    kind: str
    file: str | None
    uses: frozenset[Line]
    others: frozenset[Line]

    def judge(self, answer: Answer) -> Verdict:
        """What an answer is worth."""
        is_complete = self.uses <= answer.lines
        if answer.is_fresh:
            is_right = self.uses <= answer.proven and self.others.isdisjoint(answer.proven)
            return "complete" if is_right else "wrong"
        return "marked" if is_complete else "incomplete"

    def fault(self, answer: Answer) -> str:
        """What is wrong with an answer, for whoever mends it."""
        missing, more = self.uses - answer.lines, answer.proven & self.others
        return f"{self.name}: missing {sorted(missing)[:5]}, not its own {sorted(more)[:5]}: {answer.reason[:600]}"


@dataclass(frozen=True)
class PublicRepository:
    """One tree, by the name of its file in `repositories/uses`."""

    name: str
    members: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @cached_property
    def symbols(self) -> Sequence[KnownSymbol]:
        """The symbols that are asked for."""
        return [
            KnownSymbol(
                each["symbol"],
                each["kind"],
                each.get("file"),
                _lines(each["uses"]),
                _lines(each.get("others", {})),
            )
            for each in self.members["symbols"]
        ]

    @classmethod
    def read(cls, name: str) -> PublicRepository:
        """The repository with this name."""
        return cls(name, json.loads((USES / f"{name}.json").read_text()))

    def unpack(self, trees: Path, root: Path, installed: Path) -> None:
        """Copy the tree into a project, and add what its users have: libraries' folders, a compilation database.

        Args:
            trees: the folder with all trees.
            root: of the project, which is there.
            installed: the folder of the language servers, which has TypeScript 5.
        """
        shutil.copytree(trees / self.name, root, dirs_exist_ok=True, symlinks=True)
        setup = self.members["setup"]
        if setup.get("environment"):
            (root / ".venv/bin").mkdir(parents=True)
            (root / ".venv/bin/python").symlink_to("/usr/bin/python3")
            (root / ".venv/lib/python3.12/site-packages").mkdir(parents=True)
            (root / ".venv/pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12\n")
        if setup.get("typescript") == 5:
            source, packages = installed / "npm/node_modules/typescript", root / "node_modules"
            packages.mkdir()
            shutil.copytree(source, packages / "typescript", copy_function=os.link)
        if compiled := setup.get("compiled"):
            files = sorted(file for pattern in compiled for file in root.glob(pattern))
            (root / "compile_commands.json").write_text(
                json.dumps([self._command(root, file) for file in files])
            )

    def _command(self, root: Path, file: Path) -> dict[str, Any]:
        compiler = "c++" if file.suffix == ".cpp" else "cc"
        includes = [f"-I{folder}" for folder in self.members["setup"]["include"]]
        name = file.relative_to(root).as_posix()
        return {"directory": str(root), "file": name, "arguments": [compiler, *includes, "-c", name]}


def _lines(by_file: Mapping[str, Sequence[int]]) -> frozenset[Line]:
    return frozenset((file, line) for file, lines in by_file.items() for line in lines)


async def ask_uses(client: mcp.Client, symbol: KnownSymbol) -> Answer:
    """All that `lm_references` says of a symbol, page by page."""
    question: dict[str, Any] = {"symbol": symbol.name, "includeDeclaration": True, "waitS": 30}
    if symbol.file is not None:
        question["filePath"] = symbol.file
    proven: set[Line] = set()
    possible: set[Line] = set()
    offset: int | None = 0
    for _ in range(MOST_PAGES):
        answer = await client.call_tool("lm_references", {**question, "offset": offset})
        if answer.is_error:
            return Answer(reason=str(getattr(answer.content[0], "text", "")))
        told = answer.structured_content
        assert told is not None
        proven |= {(_inside(use["workspacePath"]), use["startLine"]) for use in told["references"]}
        possible |= {(_inside(use["workspacePath"]), use["line"]) for use in told.get("possible", ())}
        if (offset := told["nextOffset"]) is None:
            break
    parts = told["freshness"]
    reason = "; ".join(part.get("reason", part["state"]) for part in parts if part["state"] != "fresh")
    return Answer(frozenset(proven), frozenset(possible), is_fresh=not reason, reason=reason)


def _inside(path: str | None) -> str:
    """The path in the project of a path with the name of its folder."""
    return (path or "").partition("/")[2]
