"""Adds to a message about a key of `tool.toml` its line, and the key that was probably meant. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lm_tools_bridge.text.key_lines import line_of
from lm_tools_bridge.text.near_names import did_you_mean, near
from workspace_server.results import clean_text
from workspace_server.sources.scripts.definition.parameters import KEYS

_ABOUT: Final = re.compile(r"([\w.-]+)(?:: (\w+))? ")
"""How a message begins that is about a key: the key, or a table and a key in it."""
_LIKE_A_KEY: Final = 0.75
_LONGEST: Final = 64
MAX_UNKNOWN: Final = 10
"""Unknown keys that are shown."""


def explained(message: str, content: bytes, table: Mapping[str, Any]) -> str:
    """The message of an invalid manifest, with the line of the key that it begins with."""
    about = _ABOUT.match(message)
    if about is None:
        return message
    key, inner = about.groups()
    if message == f"{key} is missing":
        misspelt = near(key, table, cutoff=_LIKE_A_KEY)
        if not misspelt:
            return message
        key, message = misspelt[0], f"{message}, but there is {_shown(misspelt[0])}"
    line = line_of(content, inner or key, key.rpartition(".")[2] if inner else None)
    return message if line is None else f"tool.toml, line {line}: {message}"


def unknown(key: str, content: bytes, known: Iterable[str]) -> str:
    """An unknown key with its line and the nearest known one."""
    table, _, last = key.rpartition(".")
    line = line_of(content, last, table.rpartition(".")[2] or None)
    place = "" if line is None else f"line {line}"
    about = f"{place}{did_you_mean(last, KEYS if table else known)}".removeprefix("; ")
    return f"{_shown(key)} ({about})" if about else _shown(key)


def _shown(key: str) -> str:
    return clean_text(key)[:_LONGEST]
