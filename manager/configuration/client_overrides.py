"""Reads settings that may differ by client, such as `my-agent=20, other=5`. Pure.

A pattern such as `my-*` names several clients, `my-agent@2.*` some versions of one; a value without a name is
for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeVar, cast

from lm_tools_bridge.protocol.internal import client_files

_Value = TypeVar("_Value")

Sees = Literal["structured", "text", "both", "unknown"]
"""What of a tool result a client shows to its model; `unknown` for clients that nobody measured."""
Hears = Literal["always", "until stream lost", "never"]
"""Whether a client lists its tools again when it is told that they changed."""
EVERY: Final = "*"
# The longest deadline of a call (`call_timeout_s`): a longer wait could never end in an answer.
MAX_SECONDS: Final = 3600.0
_SEES: Final = ("structured", "text", "both")
_HEARS: Final = ("always", "never")
_ANSWERS: Final = {"yes": True, "no": False}
PROJECT_FILES: Final = tuple(file.path for file in client_files.PROJECT_FILES)
"""Files of clients whose servers a project offers."""
_NO_FILES: Final = "none"


def normal_text(value: Any, read: Callable[[str], object]) -> str:
    """A setting as text, `client=value, …`, from a text, a number or a TOML table of clients.

    Args:
        value: what the configuration says.
        read: reads one value.

    Raises:
        ValueError: the setting cannot be read; the message says why and what would be right.
    """
    if isinstance(value, Mapping):
        pairs = [(str(name).strip(), _plain(part)) for name, part in value.items()]
    else:
        pairs = _pairs(_plain(value))
    for name, part in pairs:
        if not name or set(name) & set("=,"):
            raise ValueError(f"{name!r} is no name of a client")
        read(part)
    return ", ".join(f"{name}={part}" for name, part in pairs)


def by_client(text: str, read: Callable[[str], _Value]) -> dict[str, _Value]:
    """The values of a setting by the name or pattern of the client, in lower case.

    Args:
        text: as `normal_text` returns it.
        read: reads one value.
    """
    return {name.lower(): read(text_of_client) for name, text_of_client in _pairs(text)}


def seconds(text: str) -> float:
    """Seconds, or `ValueError`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= MAX_SECONDS:
        raise ValueError(
            f"{text!r} is no number of seconds up to {MAX_SECONDS:g}; "
            "write 20 for all clients, or my-agent=20, other=5"
        )
    return number


def sees(text: str) -> Sees:
    """What of a result a client shows to its model, or `ValueError`."""
    if text not in _SEES:
        raise ValueError(
            f"{text!r} is none of {', '.join(_SEES)}; write one of them for all clients, or my-agent=text"
        )
    return cast("Sees", text)


def hears(text: str) -> Hears:
    """Whether a client lists its tools again when they changed, or `ValueError`."""
    if text not in _HEARS:
        raise ValueError(
            f"{text!r} is neither always nor never; write one of them for all clients, or my-agent=never"
        )
    return cast("Hears", text)


def yes_or_no(text: str) -> bool:
    """Whether something holds for a client, or `ValueError`."""
    if text not in _ANSWERS:
        raise ValueError(f"{text!r} is neither yes nor no; write one of them for all clients, or my-agent=no")
    return _ANSWERS[text]


def project_files(text: str) -> tuple[str, ...]:
    """Names of files, separated by spaces, or `ValueError`; `none` is no file."""
    files = () if text == _NO_FILES else tuple(text.split())
    unknown = next((file for file in files if file not in PROJECT_FILES), None)
    if unknown is not None or (not files and text != _NO_FILES):
        raise ValueError(
            f"{unknown or text!r} is none of {', '.join(PROJECT_FILES)}; "
            "write my-agent=.mcp.json, or my-agent=none"
        )
    return files


def _pairs(text: str) -> list[tuple[str, str]]:
    """Names and values of `client=value, …`."""
    prefixes = []
    for part in text.split(","):
        name, sign, value = part.partition("=")
        if sign:
            prefixes.append((name.strip(), value.strip()))
        elif part.strip():
            prefixes.append((EVERY, part.strip()))
    return prefixes


def _plain(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{value!r} is neither a text nor a number")
    return value.strip() if isinstance(value, str) else f"{value:.12g}"
