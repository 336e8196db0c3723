"""Reads the origin and the commit of a git repository from its files, without running git. Blocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

_MAX_BYTES: Final = 256 * 1024
"""Of a file of git: its configuration and a branch have less. In a longer `packed-refs` a branch may not be
found, and then no revision is published."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SECTION: Final = re.compile(r'\[\s*remote\s+"origin"\s*\]')
_URL: Final = re.compile(r"\s*url\s*=\s*(.+?)\s*")


class Repository(NamedTuple):
    """The origin, without credentials, and the commit of a folder; "" for what is not known."""

    origin: str = ""
    revision: str = ""


def repository_of(root: Path) -> Repository:
    """The repository of a folder that has `.git` itself; worktrees are followed."""
    folder = _git_folder(root)
    if folder is None:
        return Repository()
    common = folder
    if (common_name := _text(folder / "commondir").strip()) != "":
        common = (folder / common_name).resolve()
    return Repository(_origin(_text(common / "config")), _revision(folder, common))


def without_credentials(url: str) -> str:
    """A URL without user name and password; `git@host:path` keeps its user, which is no secret."""
    if "://" not in url:
        return url
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return ""


def _git_folder(root: Path) -> Path | None:
    place = root / ".git"
    if place.is_dir():
        return place
    text = _text(place).strip()
    return (root / text.removeprefix("gitdir:").strip()).resolve() if text.startswith("gitdir:") else None


def _origin(config: str) -> str:
    is_inside = False
    for line in config.splitlines():
        if line.lstrip().startswith("["):
            is_inside = _SECTION.match(line.strip()) is not None
        elif is_inside and (match := _URL.fullmatch(line)) is not None:
            return without_credentials(match.group(1))
    return ""


def _revision(folder: Path, common: Path) -> str:
    head = _text(folder / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else ""
    name = head.removeprefix("ref:").strip()
    if ".." in name or name.startswith("/"):
        return ""
    for place in (folder, common):
        if _COMMIT.fullmatch(commit := _text(place / name).strip()):
            return commit
    packed = (line.split(" ", 1) for line in _text(common / "packed-refs").splitlines())
    return next((words[0] for words in packed if words[1:] == [name] and _COMMIT.fullmatch(words[0])), "")


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
