"""Own servers: which servers of a project's files a client starts itself, so that lists leave them out. Pure.

They travel in one request header: the files, separated by commas, each followed by `;-NAME` for servers that
the client does not start, or by `;+NAME` for the only ones that it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

_UNFIT: Final = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAMES: Final = 100
"""Names that one header may have: a client with more exceptions is taken to start none of them."""


class OwnServers(NamedTuple):
    """Servers of one file of a project that a client starts itself.

    Attributes:
        file: the file, relative to the project's root.
        names: namespaces of servers.
        is_all_but: whether it starts all servers of the file but these, instead of only these.
    """

    file: str
    names: frozenset[str] = frozenset()
    is_all_but: bool = True

    def starts(self, file: str | None, namespace: str) -> bool:
        """Whether the client starts the server that this file configures."""
        return file == self.file and (namespace in self.names) is not self.is_all_but


def namespace_of(name: str) -> str:
    """The namespace that a workspace server gives to an entry of this name."""
    return _UNFIT.sub("_", name.strip())


def encode(own_servers: Iterable[OwnServers]) -> str:
    """The value of the header; empty for none."""
    return ",".join(_encoded(entry) for entry in own_servers if entry.is_all_but or entry.names)


def _encoded(entry: OwnServers) -> str:
    if len(entry.names) > _MAX_NAMES:
        return f"{entry.file};+"
    sign = "-" if entry.is_all_but else "+"
    return ";".join([entry.file, *(f"{sign}{name}" for name in sorted(entry.names))])


def decode(value: str) -> tuple[OwnServers, ...]:
    """The own servers that the header's value names."""
    return tuple(_decoded(part) for part in value.split(",") if part.strip())


def _decoded(part: str) -> OwnServers:
    file, *words = (word.strip() for word in part.split(";"))
    names = frozenset(word[1:] for word in words if word[1:])
    return OwnServers(file, names, is_all_but=not any(word.startswith("+") for word in words))
