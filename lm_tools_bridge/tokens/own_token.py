"""Makes tokens, and the one of the user's own programs, by which `lmtb` passes where tokens are required."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from pathlib import Path

from lm_tools_bridge.machine.files import private_files
from lm_tools_bridge.machine.own_token import FILE, PREFIX, read_own_token


def new_token() -> str:
    """A new token: 256 random bits."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def renew_own_token(runtime_dir: Path, former_dirs: Iterable[Path] = ()) -> str:
    """Make the token of the user's own programs, a new one for each start: who got the last one has nothing.

    Programs that were started before an upgrade read it in one of `former_dirs`.

    Raises:
        OSError, lm_tools_bridge.machine.files.private_files.UnsafePathError: the file cannot be used.
    """
    token = new_token()
    private_files.make_private(runtime_dir)
    for folder in (runtime_dir, *(folder for folder in former_dirs if read_own_token(folder) is not None)):
        private_files.write(folder / FILE, token.encode())
    return token


def remove_own_token(runtime_dir: Path) -> None:
    """Remove the file: no token is required any more. Raises OSError if that is impossible."""
    (runtime_dir / FILE).unlink(missing_ok=True)
