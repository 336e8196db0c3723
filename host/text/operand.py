"""Writes a name as the last word of a command that a person is told to run."""

from __future__ import annotations

import shlex


def operand(name: str) -> str:
    """`name` for a shell, behind `--` if it begins with a dash: no option is meant."""
    quoted = shlex.quote(name)
    return f"-- {quoted}" if name.startswith("-") else quoted
