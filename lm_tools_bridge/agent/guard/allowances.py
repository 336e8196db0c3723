"""Remembers what the person has allowed for this session: tools, and exact commands. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


class Allowances:
    """What runs without another question until the session ends."""

    def __init__(self) -> None:
        self._tools: set[str] = set()
        self._exact: set[tuple[str, str]] = set()

    def allow(self, tool: str, arguments: Mapping[str, Any], *, exactly: bool) -> None:
        """Allow a tool, or `exactly` this call of it."""
        if exactly:
            self._exact.add((tool, _canonical(arguments)))
        else:
            self._tools.add(tool)

    def covers(self, tool: str, arguments: Mapping[str, Any], *, exactly: bool) -> bool:
        """Whether a call was allowed before; `exactly`: only if this very call was."""
        return (tool, _canonical(arguments)) in self._exact or (not exactly and tool in self._tools)


def _canonical(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, default=str)
