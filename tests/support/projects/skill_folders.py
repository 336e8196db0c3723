"""Writes skills into folders, and reads what is served of them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workspace_server.trust.item import Verdict


def skill_text(name: str, description: str = "Does things", body: str = "# Steps\n") -> str:
    """A `SKILL.md`."""
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{body}"


def write_skill(folder: Path, name: str, **files: str | bytes) -> Path:
    """A skill below a folder of skills; keyword arguments are more files, or another `SKILL.md`.

    In their names `__` stands for `/` and `_md` for `.md`.
    """
    place = folder / name
    place.mkdir(parents=True, exist_ok=True)
    written: dict[str, str | bytes] = {"SKILL_md": skill_text(name), **files}
    for given, content in written.items():
        path = place / given.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return place


def digest_of(content: str | bytes) -> str:
    """The digest of a file as the extension writes it."""
    raw = content.encode() if isinstance(content, str) else content
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def uris(listed: Any) -> list[str]:
    """The URIs of listed objects."""
    return [str(one["uri"]) for one in listed]


def everything_trusted(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
    """A user who trusts all."""
    return dict.fromkeys(digests, "trusted")


def nothing_trusted(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
    """A user who trusts nothing."""
    return dict.fromkeys(digests, "never")
