"""Runs the part of the demo about code: references and errors, in Python and in C++, from language servers.

Languages whose server is not installed are named, with what would install it. Each sentence is printed after
its fact was checked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lm_tools_bridge.machine.own_distribution import command_adding

if TYPE_CHECKING:
    from mcp import Client

PROJECT: Final = "shipyard"
EXTRAS: Final = ("python", "cpp")


@dataclass(frozen=True)
class Language:
    """One language of the tour.

    Attributes:
        name: in words.
        symbol: a function that `users` call, once each.
        declared: the file that declares it.
        users: the files that call it.
        broken: a file with an error on its last line.
        error: a part of what is said of it, in lower case.
    """

    name: str
    symbol: str
    declared: str
    users: tuple[str, ...]
    broken: str
    error: str


LANGUAGES: Final = (
    Language("Python", "tonnage", "hull.py", ("launch.py", "sale.py"), "launch.py", "str"),
    Language("C++", "draught", "rig.h", ("mast.cpp", "keel.cpp"), "keel.cpp", "hull"),
)
FILES: Final = {
    "hull.py": "def tonnage(length: int) -> int:\n    return length * 3\n",
    "launch.py": "from hull import tonnage\n\nweight: str = tonnage(12)\n",
    "sale.py": "from hull import tonnage\n\nprice = 100 * tonnage(7)\n",
    "rig.h": "#pragma once\nint draught(int sails);\n",
    "mast.cpp": '#include "rig.h"\n\nint mast = draught(3);\n',
    "keel.cpp": '#include "rig.h"\n\nint keel = draught(hull);\n',
}


class CodeTour:
    """The steps about code.

    Args:
        client: makes a client for an address.
        address: of the manager's MCP endpoint.
        folder: of the project `shipyard`.
        tell: prints a sentence.
    """

    def __init__(
        self, client: Callable[[str], Client], address: str, folder: Path, tell: Callable[[str], None]
    ) -> None:
        self._client = client
        self._address = f"{address}?cwd={quote(str(folder))}"
        self._folder = folder
        self._tell = tell

    async def run(self) -> None:
        """Run all steps. Raises AssertionError if a fact does not hold."""
        self._folder.mkdir(parents=True)
        (self._folder / ".git").mkdir()
        for name, text in FILES.items():
            (self._folder / name).write_text(text, encoding="utf-8")
        (self._folder / "compile_commands.json").write_text(self._compile_commands(), encoding="utf-8")
        async with self._client(self._address) as client:
            results = [await self._show(client, language) for language in LANGUAGES]
        if not all(results):
            self._tell(f"For those without a server: {command_adding(*EXTRAS)}")
            self._tell("What a project of yours has: lmtb languages")

    def _compile_commands(self) -> str:
        """How each C++ file is compiled; without this, clangd knows open files only."""
        sources = [name for name in FILES if name.endswith(".cpp")]
        folder = str(self._folder)
        return json.dumps(
            [{"directory": folder, "file": source, "arguments": ["c++", "-c", source]} for source in sources]
        )

    async def _show(self, client: Client, language: Language) -> bool:
        problems = await self._content(client, "lm_getDiagnostics", {"filePath": language.broken})
        diagnostics = [item for file in problems["files"] for item in file["diagnostics"]]
        errors = [item for item in diagnostics if item["severity"] == "error"]
        if not errors and problems["unavailable"]:  # a linter alone, or nothing
            missing = ", ".join(item["provider"] for item in problems["unavailable"])
            self._tell(f"No language server for {language.name} is installed here ({missing}).")
            return False
        _check(any(language.error in item["message"].lower() for item in errors), str(problems))
        where = f"{language.broken}, line {errors[0]['startLine']}"
        self._tell(f'lm_getDiagnostics, {language.name}: {where}: "{errors[0]["message"]}"')
        used = await self._content(client, "lm_references", {"symbol": language.symbol})
        files = {Path(item["absolutePath"]).name for item in used["references"]}
        _check(set(language.users) <= files, f"{files}: {used}")
        states = ", ".join(f"{item['provider']}: {item['state']}" for item in used["freshness"])
        text = f"lm_references, {language.name}: {language.symbol} is used in {' and '.join(language.users)}"
        self._tell(f"{text} ({states}).")
        return True

    async def _content(self, client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        _check(not result.is_error and result.structured_content is not None, text)
        return dict(result.structured_content or {})


def _check(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)
