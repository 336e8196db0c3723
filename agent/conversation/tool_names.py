"""Names of tools: which are internal, what a provider allows, and the table back to the source. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from protocol.names import MANAGER_TOOL_NAMES

_ALLOWED: Final = re.compile(r"\A[A-Za-z0-9_-]{1,64}\Z")
"""What every provider takes as the name of a function."""
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64
_INTERNAL: Final = ("openllm_", "lmToolsBridge.", "lmToolsBridge_")
"""Prefixes of names that a model never gets and that are refused whoever asks for them."""


def is_internal(name: str) -> bool:
    """Whether a name belongs to the internal tools or to the manager's own."""
    return name.startswith(_INTERNAL) or name in MANAGER_TOOL_NAMES


def offered_names(tools: Sequence[tuple[str, str]]) -> list[str]:
    """The names for the model, one for each tool and each only once.

    A tool keeps its name if a provider allows it and no earlier tool has it. Otherwise characters are
    replaced, and the name of its source is put in front of a name that is taken.

    Args:
        tools: source and name of each tool.
    """
    taken: set[str] = set()
    names = [_keep(name, taken) for _, name in tools]
    for at, (source, name) in enumerate(tools):
        if not names[at]:
            names[at] = _free((_allowed(name), _allowed(f"{source}__{name}")), f"{source}\0{name}", taken)
    return names


def _keep(name: str, taken: set[str]) -> str:
    if not _ALLOWED.match(name) or name in taken:
        return ""
    taken.add(name)
    return name


def _allowed(name: str) -> str:
    return _OTHER.sub("_", name)


def _free(wanted: Iterable[str], identity: str, taken: set[str]) -> str:
    """The first wanted name that is short enough and free, else a cut one with a hash of its identity."""
    first = ""
    for name in wanted:
        first = first or name
        if kept := _keep(name, taken):
            return kept
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    name = f"{first[: _LONGEST - 9]}_{digest}"
    while name in taken:  # the same tool twice in one source
        name = name[:-1] + format((int(name[-1], 16) + 1) % 16, "x")
    taken.add(name)
    return name
