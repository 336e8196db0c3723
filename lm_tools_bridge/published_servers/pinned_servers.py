"""Finds the pinned packages in a `workspace.toml`, and changes the version of one, or adds a server. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from lm_tools_bridge.published_servers.proposal import Kind
from lm_tools_bridge.published_servers.server_names import Index, PackageName, Refusal, parse_package
from lm_tools_bridge.text.toml_edit import Document, NotEditableError, append_table, find_value, put_value

_RUNNERS: Final[Mapping[str, Index]] = {"npx": "npm", "uvx": "pypi"}
# Options before the package; behind any other one, the next word may be no package.
_HARMLESS: Final = frozenset({"-y", "--yes", "-q", "--quiet"})
_KINDS: Final[tuple[Kind, ...]] = ("stdio_servers", "remote_servers")


@dataclass(frozen=True, slots=True)
class PinnedServer:
    """A server whose command names a package at a version.

    Attributes:
        position: of the entry among the stdio servers of its file.
        word: of the package in the command.
    """

    namespace: str
    package: PackageName
    position: int
    word: int


def pinned_servers(document: Mapping[str, Any]) -> Iterator[PinnedServer]:
    """The servers of a file that are pinned, in order."""
    for position, entry in enumerate(_entries(document, "stdio_servers")):
        command = entry.get("command")
        words = command if isinstance(command, list) else []
        pin = _pin_in([word if isinstance(word, str) else "" for word in words])
        if pin is not None:
            yield PinnedServer(str(entry.get("namespace", "")), pin[0], position, pin[1])


def _pin_in(command: Sequence[str]) -> tuple[PackageName, int] | None:
    index = (
        _RUNNERS.get(PurePath(command[0]).name.removesuffix(".cmd").removesuffix(".exe")) if command else None
    )
    if index is None:
        return None
    word = next((word for word in range(1, len(command)) if command[word] not in _HARMLESS), len(command))
    if index == "pypi" and command[word : word + 1] == ["--from"]:
        word += 1
    if word >= len(command):
        return None
    package = parse_package(index, command[word])
    return None if isinstance(package, Refusal) or not package.version else (package, word)


def _entries(document: Mapping[str, Any], kind: Kind) -> list[Mapping[str, Any]]:
    entries = find_value(document, ("mcp", kind))
    return (
        [entry if isinstance(entry, Mapping) else {} for entry in entries]
        if isinstance(entries, list)
        else []
    )


def put_server(document: Document, kind: Kind, entry: Mapping[str, Any], package: PackageName | None) -> None:
    """Add an entry, or give the entry of this name the version of `package`, if it runs the same package.

    Raises:
        NotEditableError: another server has the name.
    """
    namespace = str(entry["namespace"])
    pin = next((pin for pin in pinned_servers(document) if pin.namespace == namespace), None)
    if (
        pin is not None
        and package is not None
        and (pin.package.index, pin.package.name) == (package.index, package.name)
    ):
        command = [str(word) for word in document["mcp"]["stdio_servers"][pin.position]["command"]]
        command[pin.word] = command[pin.word].replace(pin.package.version, package.version)
        put_value(document["mcp"]["stdio_servers"][pin.position], ("command",), command)
        return
    taken_names = {
        namespace_of(str(other.get("namespace", ""))) for key in _KINDS for other in _entries(document, key)
    }
    if namespace_of(namespace) in taken_names:
        raise NotEditableError(f'it has another server "{namespace}"')
    append_table(document, ("mcp", kind), entry)


_RELEASE: Final = re.compile(r"(?:\d+!)?(\d+(?:\.\d+)*)(.*)", re.DOTALL)


def is_newer(version: str, pinned: str) -> bool:
    """Whether a version comes after another: by its numbers; if they are equal, a preview comes first."""
    first, second = _RELEASE.fullmatch(version), _RELEASE.fullmatch(pinned)
    if first is None or second is None:
        return version != pinned
    numbers, pinned_numbers = _numbers(first[1]), _numbers(second[1])
    if numbers != pinned_numbers:
        return numbers > pinned_numbers
    return _is_preview(second[2]) and not _is_preview(first[2])


def _numbers(release: str) -> tuple[int, ...]:
    numbers = [int(number) for number in release.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def _is_preview(rest: str) -> bool:
    """Whether what follows the numbers is the mark of a preview, not of a build or of a later correction."""
    return re.match(r"-|\.?(?:a|b|rc|dev)", rest) is not None
