"""Tells whether what was trusted in one working tree of a repository is the same in another. Pure.

`store.py` finds the working trees, with proof. What was trusted there holds here if its bytes are equal and
if it means the same in another folder: a path that leads out of the folder by `..` leads elsewhere from here.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any, Final

from workspace_server.trust.item import TrustItem, canonical, texts_in
from workspace_server.trust.moved_entries import without_place

_OUT: Final = re.compile(r"(?<!\.)\.\.(?![\w.-])")
"""`..` as a part of a path, also behind an option (`-I../include`). Where it is something else, the user
is asked for trust once more."""


def leads_out(value: Any) -> bool:
    """Whether a text in a value, or in its keys, has `..` as a part of a path."""
    return any(_OUT.search(text) for text in texts_in(value))


def is_same_elsewhere(
    facts: Mapping[str, Any], hashes: Mapping[str, str], folder: str, item: TrustItem, root: str
) -> bool:
    """Whether an item of the folder `root` is what was recorded in `folder`.

    The program of a command is recorded with its whole path; one of the project lies in another folder here.

    Args:
        facts, hashes: the recorded facts, and the SHA-256 of each recorded file.
    """
    if item.leads_out or hashes != item.hashes():
        return False
    return canonical(_within(facts, folder)) == canonical(_within(item.facts, root))


def content_digest(item: TrustItem, root: str) -> str:
    """A digest of what an item starts or connects to, in whichever file and worktree it is written."""
    facts = without_place(_within(item.facts, root))
    return hashlib.sha256(canonical([item.key, facts, item.hashes()])).hexdigest()


def _within(facts: Mapping[str, Any], folder: str) -> Mapping[str, Any]:
    """The facts with the program's path relative to its folder, if it lies there, also among the files."""
    program = facts.get("program")
    if not isinstance(program, str) or not program.startswith(folder + os.sep):
        return facts
    place, files = os.path.relpath(program, folder), facts.get("files", {})
    files = {place if path == program else path: target for path, target in files.items()}
    return {**facts, "program": {"in the project": place}, "files": files}
