"""Reads all files of a script tool once, so that the bytes that were checked are the bytes that run."""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from workspace_server.files.file_identity import FileIdentity, file_identity
from workspace_server.sources.scripts.definition.folders import MAX_BYTES, Survey
from workspace_server.trust.item import file_name

_MAX_LINKS: Final = 40


class Unreadable(Exception):
    """The files cannot be read, at least not now; the text says why."""


@dataclass(frozen=True)
class Bundle:
    """Files by relative name, `/` between parts.

    Attributes:
        contents: the bytes of each file.
        executable: the names of those that may be run.
        links: symbolic links within the bundle, with their targets.
    """

    contents: Mapping[str, bytes]
    executable: frozenset[str]
    links: Mapping[str, str]

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The same as `trust.Item.files`."""
        found = {
            file_name(name, executable=name in self.executable): content
            for name, content in self.contents.items()
        }
        found |= {file_name(name, link=True): target.encode() for name, target in self.links.items()}
        return found

    @cached_property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.contents.values()))

    @cached_property
    def digest(self) -> str:
        """SHA-256 in hex over names, modes and contents."""
        state = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            raw = name.encode()
            state.update(b"%d:%d:" % (len(raw), len(content)) + raw + content)
        return state.hexdigest()

    def find(self, name: str) -> str | None:
        """The file that a relative name leads to, through links of the bundle; None where there is none."""
        for _ in range(_MAX_LINKS):
            if name in self.contents:
                return name
            above = next((part for part in _beginnings(name) if part in self.links), None)
            if above is None:
                return None
            target = posixpath.join(posixpath.dirname(above), self.links[above])
            name = posixpath.normpath(target + name[len(above) :])
        return None


def read(survey: Survey) -> tuple[Bundle, tuple[FileIdentity, ...]]:
    """Read the files of a folder; also what the file system knew of them while they were read.

    Raises:
        Unreadable: one is closed to us or being written, or a link leads out of the folder.
    """
    if survey.problem is not None:
        raise Unreadable(survey.problem)
    contents: dict[str, bytes] = {}
    executable: set[str] = set()
    stamps: list[FileIdentity] = []
    for name in survey.files:
        contents[name], stamp = _read_file(survey.folder, name)
        stamps.append(stamp)
        if stamp[2] & stat.S_IXUSR:
            executable.add(name)
        if sum(map(len, contents.values())) > MAX_BYTES:
            raise Unreadable("its files grow while they are read")
    for name, target in survey.links:
        if not _stays_inside(name, target):
            raise Unreadable(f"{name} is a link that leads out of the folder")
    return Bundle(contents, frozenset(executable), dict(survey.links)), tuple(stamps)


def _read_file(folder: str, name: str) -> tuple[bytes, FileIdentity]:
    try:
        # nothing that waits: another file may have taken the name
        descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123  a descriptor
            before = file_identity(os.fstat(descriptor))
            content = file.read(MAX_BYTES + 1) if stat.S_ISREG(before[2]) else b""
            after = file_identity(os.fstat(descriptor))
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {(error.strerror or 'failed').lower()}") from None
    if before != after or len(content) != after[3]:
        raise Unreadable(f"{name} is being written")
    return content, after


def _beginnings(name: str) -> list[str]:
    """`a/b/c` as a, a/b, a/b/c."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _stays_inside(name: str, target: str) -> bool:
    """Whether a link leads to somewhere in its bundle, whatever its target is a link to.

    `..` only at the beginning: there it climbs folders that are real, so that names tell where it leads.
    """
    parts = target.split("/")
    climbs = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if target.startswith("/") or ".." in parts[climbs:]:
        return False
    return climbs <= name.count("/")
