"""Tells whether an interpreter, such as python, would run code of its arguments or its input. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

_SCRIPT_OPTIONS: Final[Mapping[str, str]] = {
    "python": "c", "pypy": "c", "node": "ep", "nodejs": "ep", "bun": "ep", "deno": "", "perl": "eE",
    "ruby": "e", "php": "rBRE", "lua": "e", "luajit": "e", "Rscript": "e", "R": "e", "julia": "eE",
    "osascript": "e", "groovy": "e", "elixir": "e", "tclsh": "", "pwsh": "c", "powershell": "c",
}  # fmt: skip
"""Interpreters, without the number of a version -> letters of the options that code follows."""
_LONG_OPTIONS: Final = frozenset(
    {
        "eval", "--eval", "--print", "--run", "--process-code", "-eval", "-command", "-encodedcommand", "-ec",
    }
)  # fmt: skip
_MODULE: Final = "-m"
_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
_VERSION: Final = re.compile(r"[0-9.]+\Z")
_AWK_STARTS: Final = re.compile(r"\bsystem\b|\bgetline\b|\|")


def interpreter(name: str) -> str:
    """The name of an interpreter without its version, such as `python` of `python3.12`; empty for others."""
    plain = _VERSION.sub("", name)
    return plain if plain in _SCRIPT_OPTIONS or plain in _AWKS else ""


def runs_code(name: str, words: Sequence[str | None]) -> bool:
    """Whether an interpreter would run code that is no file.

    Args:
        name: as `interpreter` gives it.
        words: its arguments; None for one that only the shell knows.
    """
    if name in _AWKS:
        return any(word is None or _AWK_STARTS.search(word) is not None for word in words)
    letters = _SCRIPT_OPTIONS[name]
    for word in words:
        if word is None or word == "-":
            return True
        if word.lower() in _LONG_OPTIONS or word.partition("=")[0].lower() in _LONG_OPTIONS:
            return True
        if not word.startswith("-"):
            return False  # a script
        if not word.startswith("--") and any(letter in word[1:] for letter in letters):
            return True
        if word.startswith(_MODULE) and name in {"python", "pypy"}:
            return False
        if word in {"--version", "-V", "-v", "--help", "-h"}:
            return False
    return True  # it reads the code from its input
