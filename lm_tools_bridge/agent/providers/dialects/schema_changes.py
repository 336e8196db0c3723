"""Defines what a converted schema is, and finds what its references refer to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class Change:
    """One change: where (`properties.path`; empty at the root), by which rule, and what it did."""

    place: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.place or 'schema'}: {self.text} ({self.rule})"


@dataclass(frozen=True, slots=True)
class Converted:
    """A schema as a provider takes it, None if it is best left out, and what was changed for that."""

    schema: Mapping[str, Any] | None
    changes: tuple[Change, ...] = ()


def referred(root: Mapping[str, Any], reference: object) -> Any:
    """What a reference into the same schema (`#/$defs/x`) refers to; None for any other and a wrong one."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    target: Any = root
    for part in reference[1:].split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping) and name in target:
            target = target[name]
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            return None
    return target
