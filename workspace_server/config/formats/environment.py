"""Checks the environment variables that an entry sets, and parses environment files. Pure."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Final

_REFUSED: Final = frozenset({"PATH", "PYTHONPATH", "NODE_OPTIONS"})
_REFUSED_PREFIXES: Final = ("LD_", "DYLD_", "GIT_")
_LINE_END: Final = re.compile(r"\r\n|\n|\r")
"""Other line ends of Unicode, such as U+2028 and the form feed, may stand in a value."""
_LINE: Final = re.compile(r"\s*(?:export\s+)?([\w.-]+)\s*=\s*(.*?)\s*\Z", re.DOTALL)
_QUOTED: Final = re.compile(r"""(["'`])(.*)\1\s*(?:#.*)?\Z""", re.DOTALL)


def is_refused(name: str, value: str) -> bool:
    """Whether a workspace's file must not set this variable, because it controls what programs load."""
    upper = name.upper()
    return upper in _REFUSED or upper.startswith(_REFUSED_PREFIXES) or value.startswith("()")


def is_sane(name: str, value: str) -> bool:
    """Whether the operating system accepts this variable."""
    return bool(name) and "=" not in name and "\0" not in name and "\0" not in value


def decode(data: bytes) -> str:
    """The text of an environment file; with its byte order mark UTF-16 is read, too, as Windows writes it."""
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if is_utf16 else "utf-8-sig", "replace")


def parse(text: str) -> Mapping[str, str]:
    """The variables of an environment file: `NAME=value` lines, with quotes, `export` and `#` comments.

    Other lines are ignored, as editors do.
    """
    variables: dict[str, str] = {}
    for line in _LINE_END.split(text):
        match = None if line.lstrip().startswith("#") else _LINE.match(line)
        if match is not None:
            variables[match[1]] = _value(match[2])
    return variables


def _value(written: str) -> str:
    quoted = _QUOTED.match(written)
    if quoted is None:
        return written.split(" #", 1)[0].rstrip()
    if quoted[1] == '"':
        return quoted[2].replace("\\n", "\n").replace('\\"', '"')
    return quoted[2]
