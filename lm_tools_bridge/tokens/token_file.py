"""Reads and changes the file of tokens: private, locked while it changes, digests only. Blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.machine.files import private_files
from lm_tools_bridge.tokens.token import SCOPES, Token

MOST_TOKENS: Final = 100
_VERSION: Final = 1
_LIMIT: Final = 256 * 1024


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    tokens: list[Token]


class TokenFileError(Exception):
    """The file cannot be used. The message is for people; it contains nothing of the file."""


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens; none if there is no file.

    Raises:
        TokenFileError: it cannot be read, is open to others, or a newer version wrote it.
    """
    try:
        content = private_files.read(path, _LIMIT)
    except (OSError, private_files.UnsafePathError) as error:
        raise TokenFileError(str(error)) from error
    if content is None:
        return ()
    try:
        found = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TokenFileError(f"{path} is no file of tokens") from error
    if found.version != _VERSION:
        raise TokenFileError(f"{path} was written by a newer version")
    if any(set(one.scopes) - set(SCOPES) for one in found.tokens):
        raise TokenFileError(f"{path} names a scope that this version does not know")
    return tuple(found.tokens)


def change_tokens(path: Path, change: Callable[[tuple[Token, ...]], Sequence[Token]]) -> None:
    """Replace the tokens by what `change` makes of them; no other program changes them meanwhile.

    Raises:
        TokenFileError: see `read_tokens`, or it cannot be written.
    """
    try:
        private_files.make_private(path.parent)
        with private_files.locked(path.with_name(f"{path.name}.lock")):
            changed = change(read_tokens(path))
            private_files.write(path, msgspec.json.encode(_File(_VERSION, list(changed))))
    except (OSError, private_files.UnsafePathError, private_files.LockTimeout) as error:
        raise TokenFileError(str(error)) from error
