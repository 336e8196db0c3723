"""Derives the id of a workspace from its real path."""

from __future__ import annotations

import hashlib
import ntpath
import posixpath
import re
import unicodedata
from functools import lru_cache
from typing import Final

_SLUG_LENGTH: Final = 40
_HASH_LENGTH: Final = 12
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
