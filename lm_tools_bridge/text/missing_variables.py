"""Finds environment variables that a program asked for on standard error and did not get. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

# More in one message are no hint any more, but a dump of the program's documentation.
MAX_NAMES: Final = 5
_NAME: Final = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9_])")
"""Variables of services have several words (`GITHUB_TOKEN`); single words are mostly something else."""


def named_in(lines: Iterable[str], got: Collection[str]) -> list[str]:
    """The names of variables in what a program wrote, without those that it got; at most `MAX_NAMES`."""
    names = dict.fromkeys(name for line in lines for name in _NAME.findall(line))
    return [name for name in names if name not in got][:MAX_NAMES]


def passing_on(names: Iterable[str], *, as_json: bool = False) -> str:
    """The line of a server's entry that passes these variables on."""
    if as_json:
        members = (f'"{name}": "${{{name}}}"' for name in names)
        return '"env": {' + ", ".join(members) + "}"
    return "env = { " + ", ".join(f'{name} = "${{{name}}}"' for name in names) + " }"
