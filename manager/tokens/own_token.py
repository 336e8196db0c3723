"""Makes tokens, and the one of the user's own programs, by which `lmtb` passes where tokens are required."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from host.files import private_files
from host.own_token import FILE, PREFIX, read_own_token


def new_token() -> str:
    """A new token: 256 random bits."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def ensure_own_token(runtime_dir: Path, former_dirs: Iterable[Path] = ()) -> str:
    """The token of the user's own programs, which is made if there is none. It survives restarts.

    Programs that were started before an upgrade read it in one of `former_dirs`, and go on with it.

    Raises:
        OSError, host.files.private_files.UnsafePathError: the file cannot be used.
    """
    found = read_own_token(runtime_dir)
    if found is not None:
        return found
    token = next(filter(None, map(read_own_token, former_dirs)), None) or new_token()
    private_files.make_private(runtime_dir)
    private_files.write(runtime_dir / FILE, token.encode())
    return token


def remove_own_token(runtime_dir: Path) -> None:
    """Remove the file: no token is required any more. Raises OSError if that is impossible."""
    (runtime_dir / FILE).unlink(missing_ok=True)
