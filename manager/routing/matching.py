"""Finds the workspace of a folder: the nearest ancestor that is a known root or has a project mark. Pure.

Roots are compared by whole real path and by (device, inode), never by string prefix: `/ws/monolith` is not
inside `/ws/mono`. The id of a workspace is derived from its real path.
"""

from __future__ import annotations

import hashlib
import ntpath
import posixpath
import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from lm_tools_bridge.machine.project_marks import STRONG, Mark
from manager.disk.folder import Ancestor, FolderIdentity

_WITHOUT_KNOWN_PARENT: Final[frozenset[Mark]] = STRONG | {"vscode"}


class KnownRoot(msgspec.Struct, frozen=True):
    """A folder (or workspace file) of a known workspace, which may have several of these.

    `root` is its real path. `identity` must be current, because inode numbers are reused; None if the folder
    is gone or its disk does not answer.
    """

    root: str
    workspace_id: str
    identity: FolderIdentity | None


class Match(msgspec.Struct, frozen=True):
    """The root of the workspace, `levels_up` steps above the folder (0: the folder itself).

    `workspace_id` is None for a marked root that is not known yet. `root` of a known workspace is the folder
    that matched, which need not be its first one.
    """

    root: str
    workspace_id: str | None
    levels_up: int


def match(
    ancestors: Sequence[Ancestor],
    known: Collection[KnownRoot],
    *,
    home: FolderIdentity | None,
    auto_start: bool,
) -> Match | None:
    """Find the workspace of a folder; None if it has none.

    `ancestors` goes from the folder up to the root of the tree, as in `FolderFacts`. Marks count only with
    `auto_start`, never on the folder `home` nor on the root of the tree; either may still be *known*.
    `.vscode` alone marks a folder only where nothing known lies above it. The order of `known` has no
    influence.
    """
    found_known = _nearest_known(ancestors, known)
    marks = STRONG if found_known else _WITHOUT_KNOWN_PARENT
    if not auto_start:
        return found_known
    below = ancestors[: found_known.levels_up] if found_known else ancestors[:-1]
    for level, ancestor in enumerate(below):
        if ancestor.marks & marks and ancestor.identity != home:
            return Match(ancestor.path, None, level)
    return found_known


def _nearest_known(ancestors: Sequence[Ancestor], known: Collection[KnownRoot]) -> Match | None:
    # Two workspaces may share a folder, and two known folders may be one on disk (bind mount). The smallest
    # wins deterministically, because it is written last.
    ordered = sorted(known, key=lambda root: (root.root, root.workspace_id), reverse=True)
    by_path = {root.root: root for root in ordered}
    by_identity = {root.identity: root for root in ordered if root.identity is not None}
    for level, ancestor in enumerate(ancestors):
        # path first: a folder that was deleted and created again is the same workspace
        root = by_path.get(ancestor.path) or by_identity.get(ancestor.identity)
        if root is not None:
            return Match(root.root, root.workspace_id, level)
    return None


_SLUG_LENGTH: Final = 40
"""Characters of the readable part: with `-` and the hash the id has 53, and must have 64 at most."""
_HASH_LENGTH: Final = 12
"""Hex digits of the hash. Among a thousand folders of the same name, two have the same id with a chance of 2
in a billion."""
_FALLBACK: Final = "workspace"


@lru_cache(maxsize=4096)  # a status asks for those of all registered servers
def workspace_id(real_path: str) -> str:
    """The id of the workspace at `real_path`: readable slug, `-`, 12 hex digits of the path's SHA-256.

    At most 64 characters of `[a-z0-9-]`, stable across machines and versions. The path must be the real path
    (`FolderFacts.folder`, `Match.root`); bytes that are not UTF-8 are lone surrogates.
    """
    posix = real_path.startswith("/")
    name = posixpath.basename(real_path) if posix else ntpath.basename(real_path)
    raw = real_path.encode("utf-8", "surrogateescape" if posix else "surrogatepass")
    return f"{_slug(name)}-{hashlib.sha256(raw).hexdigest()[:_HASH_LENGTH]}"


def _slug(name: str) -> str:
    # The frozen Unicode 3.2 tables: the tables of a newer Python could change the id.
    folded = unicodedata.ucd_3_2_0.normalize("NFKD", name).encode("ascii", "ignore").decode("ascii")
    words = re.sub(r"[^a-z0-9]+", "-", folded.lower()).strip("-")
    return words[:_SLUG_LENGTH].rstrip("-") or _FALLBACK
