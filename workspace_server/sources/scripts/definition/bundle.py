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

from workspace_server.files.change_detection import FileIdentity, file_identity
from workspace_server.sources.scripts.definition.folders import MAX_BYTES, Survey
from workspace_server.trust.item import file_name

_MAX_LINKS: Final = 40


class Unreadable(Exception):
    """The files cannot be read at the moment; the text says why."""


@dataclass(frozen=True)
class Bundle:
    """The files of a folder. Names are relative, with `/` as separator.

    Attributes:
        contents: the bytes of each file, by name.
        executable: the names of executable files.
        links: targets of the symbolic links inside the folder, by name.
    """

    contents: Mapping[str, bytes]
    executable: frozenset[str]
    links: Mapping[str, str]

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Contents and link targets in the form of `TrustItem.files`."""
        contents = {
            file_name(name, executable=name in self.executable): content
            for name, content in self.contents.items()
        }
        contents |= {file_name(name, link=True): target.encode() for name, target in self.links.items()}
        return contents

    @cached_property
    def size(self) -> int:
        """Size of all files together, in bytes."""
        return sum(map(len, self.contents.values()))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of names, modes and contents, in hexadecimal."""
        state = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            raw = name.encode()
            state.update(b"%d:%d:" % (len(raw), len(content)) + raw + content)
        return state.hexdigest()

    def find(self, name: str) -> str | None:
        """Resolve the links of the bundle in `name`; None if there is no such file."""
        for _ in range(_MAX_LINKS):
            if name in self.contents:
                return name
            link = next((part for part in _prefixes(name) if part in self.links), None)
            if link is None:
                return None
            target = posixpath.join(posixpath.dirname(link), self.links[link])
            name = posixpath.normpath(target + name[len(link) :])
        return None


def read(survey: Survey) -> tuple[Bundle, tuple[FileIdentity, ...]]:
    """Read the files of a folder. Returns them and the identities they had while they were read.

    Raises:
        Unreadable: a file cannot be opened or is being written, or a link leads out of the folder.
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
        # O_NONBLOCK: a pipe may have replaced the file, and opening it would block
        descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            before = file_identity(os.fstat(descriptor))
            content = file.read(MAX_BYTES + 1) if stat.S_ISREG(before[2]) else b""
            after = file_identity(os.fstat(descriptor))
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {(error.strerror or 'failed').lower()}") from None
    if before != after or len(content) != after[3]:
        raise Unreadable(f"{name} is being written")
    return content, after


def _prefixes(name: str) -> list[str]:
    """`a`, `a/b` and `a/b/c` for `a/b/c`."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _stays_inside(name: str, target: str) -> bool:
    """Whether the target of a link is inside its bundle, even if the target contains further links.

    `..` is accepted only at the beginning, where it leaves real folders: after a link it could lead anywhere.
    """
    parts = target.split("/")
    climbs = next((place for place, part in enumerate(parts) if part != ".."), len(parts))
    if target.startswith("/") or ".." in parts[climbs:]:
        return False
    return climbs <= name.count("/")
