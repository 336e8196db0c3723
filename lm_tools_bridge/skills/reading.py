"""Reads a skill: its front matter, and the digest of each file. Keeps no contents in memory.

A file is read again for each request, and only the bytes with the digest that was checked are given out.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from lm_tools_bridge.skills import front_matter
from lm_tools_bridge.skills.folders import MAX_BYTES, SKILL_FILE, FoundFile, FoundSkill
from lm_tools_bridge.skills.front_matter import InvalidFrontMatter
from workspace_server.files.change_detection import FileIdentity, file_identity, is_settled
from workspace_server.files.file_gate import FileGate
from workspace_server.results import clean_text
from workspace_server.trust.item import TrustItem, file_name

_BINARY: Final = "application/octet-stream"
_TEXT: Final = "text/plain"
_MARKDOWN: Final = "text/markdown"


class Unreadable(Exception):
    """A skill or a file cannot be served; the text says why."""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """One file of a skill as it was checked.

    Attributes:
        uri: its resource URI.
        name: its path relative to the skill.
        path: the path to open.
        size: its bytes.
        digest: their SHA-256 in hexadecimal.
        mime_type: by its name; text that is not known otherwise is `text/plain`.
    """

    uri: str
    name: str
    path: str
    size: int
    digest: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Skill:
    """One valid skill.

    Attributes:
        uri: the URI of its `SKILL.md`.
        folder_uri: the URI of its folder.
        place: its folder as messages show it.
        front_matter: the front matter as JSON values.
        files: all files, sorted by name.
        key, trust_digest: those of the item that a user trusts.
    """

    uri: str
    folder_uri: str
    place: str
    front_matter: Mapping[str, Any]
    files: tuple[SkillFile, ...]
    key: str
    trust_digest: str

    @property
    def name(self) -> str:
        """The name in its front matter, which is that of its folder."""
        return str(self.front_matter["name"])


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a skill: the skill and its trust item, or the problem.

    `is_settled` says whether every later change of a file shows in its identity.
    """

    skill: Skill | None
    item: TrustItem | None
    problem: str
    is_settled: bool


def read(
    skill_files: FoundSkill, owner_uri: str, place: str, wall_ns: Callable[[], int] = time.time_ns
) -> Reading:
    """Read all files of a skill once. Blocks.

    Args:
        skill_files: the skill; its `problem` is passed on.
        owner_uri: what its URIs begin with, with a slash at the end.
        place: its folder as messages show it; the key of its trust item contains it.
        wall_ns: the wall clock in nanoseconds since 1970.
    """
    if skill_files.problem is not None:
        return Reading(None, None, skill_files.problem, is_settled=True)  # nothing of it is read
    now = wall_ns()
    try:
        skill, item = _read_files(skill_files, owner_uri, place)
    except Unreadable as error:
        return Reading(None, None, str(error), is_settled=False)
    except InvalidFrontMatter as invalid:
        text = f"{place}/{SKILL_FILE}, line {invalid.line}: {invalid.reason}"
        return Reading(None, None, text, is_settled=_is_settled(skill_files, now))
    return Reading(skill, item, "", is_settled=_is_settled(skill_files, now))


def _is_settled(skill_files: FoundSkill, now: int) -> bool:
    return all(is_settled(file.identity, now) for file in skill_files.files)


def _read_files(skill_files: FoundSkill, owner_uri: str, place: str) -> tuple[Skill, TrustItem]:
    folder_uri = owner_uri + "/".join(map(_quoted, skill_files.relative.split("/")))
    files, contents = [], {}
    front: dict[str, Any] | None = None
    for file in skill_files.files:
        content = _content(file.path, file.identity)
        if file.name == SKILL_FILE:
            front = front_matter.parse(content, skill_files.relative.rpartition("/")[2])
        uri = f"{folder_uri}/{'/'.join(map(_quoted, file.name.split('/')))}"
        digest = hashlib.sha256(content).hexdigest()
        files.append(
            SkillFile(uri, file.name, file.path, len(content), digest, _mime_type(file.name, content))
        )
        contents[_trusted_name(skill_files, file)] = content
    if front is None:
        raise Unreadable(f"{SKILL_FILE} cannot be read")
    title = f"skill {front['name']}: {place} ({len(files)} {'file' if len(files) == 1 else 'files'})"
    item = TrustItem(f"skill:{place}", title, {"folder": place, "served as": folder_uri}, contents)
    uri = f"{folder_uri}/{SKILL_FILE}"
    return Skill(uri, folder_uri, place, front, tuple(files), item.key, item.digest()), item


def content_of(file: SkillFile) -> bytes:
    """The bytes of a file, exactly those that were checked. Blocks.

    Raises:
        Unreadable: it cannot be read, or it changed since.
    """
    content = _content(file.path, None)
    if hashlib.sha256(content).hexdigest() != file.digest:
        raise Unreadable(f"{clean_text(file.name)} has changed just now")
    return content


def _content(path: str, expected: FileIdentity | None) -> bytes:
    name = clean_text(os.path.basename(path))
    try:
        # the path was found without links: what opens by now must lie just there
        descriptor = FileGate([Path(path).parent]).open(path)
        with os.fdopen(descriptor, "rb") as file:
            before = file_identity(os.fstat(descriptor))
            if not stat.S_ISREG(before[2]) or before[3] > MAX_BYTES:
                raise Unreadable(f"{name} is no file, or larger than {MAX_BYTES >> 20} MiB")
            content = file.read(MAX_BYTES + 1)
            after = file_identity(os.fstat(descriptor))
    except OSError as error:
        raise Unreadable(f"{name} cannot be read: {(error.strerror or 'failed').lower()}") from None
    if before != after or len(content) != after[3] or (expected is not None and after != expected):
        raise Unreadable(f"{name} is being written")
    return content


def _trusted_name(skill_files: FoundSkill, file: FoundFile) -> str:
    is_link = file.path != f"{skill_files.real}/{file.name}"
    return file_name(file.name, executable=bool(file.identity[2] & stat.S_IXUSR), link=is_link)


def _mime_type(name: str, content: bytes) -> str:
    if name.endswith(".md"):
        return _MARKDOWN
    mime_type = mimetypes.guess_type(name, strict=False)[0]
    if mime_type is not None:
        return mime_type
    return _TEXT if as_text(content) is not None else _BINARY


def as_text(content: bytes) -> str | None:
    """The content as text; None if it is binary."""
    if b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _quoted(segment: str) -> str:
    return quote(segment, safe="")
