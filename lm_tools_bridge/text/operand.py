"""Quotes a name as an operand of a shell command: behind `--` if it begins with a hyphen."""

from __future__ import annotations

import shlex


def operand(name: str) -> str:
    """`name` for a shell, which no command takes for an option."""
    quoted = shlex.quote(name)
    return f"-- {quoted}" if name.startswith("-") else quoted
