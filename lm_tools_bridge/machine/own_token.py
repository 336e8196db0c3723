"""Reads the token by which the user's own programs pass where the manager requires tokens: a private file."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lm_tools_bridge.machine import private_files

FILE: Final = "own-token"
PREFIX: Final = "lmtb_"
"""How a token begins, so that programs that search for secrets know it."""
# A token has a few dozen characters; a larger file is something else and is not read whole.
_LIMIT: Final = 256


def read_own_token(runtime_dir: Path) -> str | None:
    """The token; None if there is none, or its file must not be used."""
    try:
        content = private_files.read(runtime_dir / FILE, _LIMIT)
    except (OSError, private_files.UnsafePathError):
        return None
    text = "" if content is None else content.decode("latin-1").strip()
    return text if text.startswith(PREFIX) and text.isascii() and text.isprintable() else None


def own_headers(runtime_dir: Path) -> dict[str, str]:
    """The header fields by which a program of the user passes; none where no token is required."""
    token = read_own_token(runtime_dir)
    return {} if token is None else {"Authorization": f"Bearer {token}"}
