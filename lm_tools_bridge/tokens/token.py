"""Defines access tokens, what each scope allows, how a request shows one, and keeps their files.

The file of tokens is private, locked while it changes, and has digests only. Beside it is the token of the
user's own programs, by which `lmtb` passes where tokens are required.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hashlib
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.own_token import FILE, PREFIX, read_own_token
from manager.routing.admission import is_mcp_target

SCOPES: Final = {
    "mcp": "call tools: the MCP endpoints",
    "read": "read the page, status, metrics and log",
    "act": "use the page’s buttons, and reserve ports",
}
"""Each scope, and what it allows."""
TEAM_PATH: Final = "/team/"
"""Below it are the MCP endpoints of a team's offers."""
_LONGEST: Final = 256
"""Longest text that is taken for a token: ours have 48 characters, and a digest takes time for each byte."""


class Token(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What is stored of a token. Times are ms since 1970.

    Attributes:
        digest: SHA-256 of the token, in hexadecimal digits. A token is 256 random bits, so it needs no salt.
        expires: None for never.
    """

    name: str
    digest: str
    scopes: tuple[str, ...]
    created: int
    expires: int | None = None


def digest_of(token: str) -> str:
    """What is stored instead of a token, and compared."""
    return hashlib.sha256(token[:_LONGEST].encode("utf-8", "surrogatepass")).hexdigest()


def scope_of(method: str, target: str) -> str:
    """The scope that a request needs."""
    if is_mcp_target(target) or (method == "POST" and target.startswith(TEAM_PATH)):
        return "mcp"
    return "read" if method == "GET" else "act"


def shown_token(authorization: bytes, *, is_mcp: bool) -> str | None:
    """The token in an `Authorization` field; None if there is none.

    Args:
        is_mcp: whether it is a request to an MCP endpoint. Elsewhere a token may also be the password of
            Basic, which is what browsers can send.
    """
    scheme, _, rest = authorization.strip().partition(b" ")
    kind, value = scheme.lower(), rest.strip()
    if len(value) > 4 * _LONGEST:
        return None
    if kind == b"bearer":
        return value.decode("latin-1") or None
    if kind != b"basic" or is_mcp:
        return None
    try:
        _, colon, password = base64.b64decode(value, validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return None
    return password.decode("latin-1") if colon and password else None


MOST_TOKENS: Final = 100
"""Tokens of one user: each request on a guest's connection is compared with all of them."""
_VERSION: Final = 1
"""Of the file's form: a file of a later program is refused instead of misread."""
_LIMIT: Final = 256 * 1024
"""Bytes of the file: ten times what as many tokens take."""


class _File(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    tokens: list[Token]


class TokenFileError(Exception):
    """The file cannot be used. The message is for people; it contains nothing of the file."""

    def __init__(self, message: str, next_step: str = "move the file away") -> None:
        super().__init__(message)
        self.next_step = next_step

    @classmethod
    def of(cls, path: Path, error: Exception) -> TokenFileError:
        """The error for a file that could not be read or written."""
        if not isinstance(error, OSError):
            return cls(str(error), "check with: lmtb doctor")
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        step = (
            "free space on its disk, then try again"
            if full
            else "check owner and mode of that file and its folder"
        )
        return cls(f"{path}: {error.strerror}", step)


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens; none if there is no file.

    Raises:
        TokenFileError: it cannot be read, is open to others, or a newer version wrote it.
    """
    try:
        content = private_files.read(path, _LIMIT)
    except (OSError, private_files.UnsafePathError) as error:
        raise TokenFileError.of(path, error) from error
    if content is None:
        return ()
    try:
        file = msgspec.json.decode(content, type=_File)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TokenFileError(f"{path} is no file of tokens") from error
    if file.version != _VERSION:
        raise TokenFileError(f"{path} was written by a newer version", "install that version again")
    if any(set(token.scopes) - set(SCOPES) for token in file.tokens):
        raise TokenFileError(
            f"{path} names a scope that this version does not know", "install a newer version"
        )
    return tuple(file.tokens)


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
        raise TokenFileError.of(path, error) from error


def new_token() -> str:
    """A new token: 256 random bits."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def renew_own_token(runtime_dir: Path, former_dirs: Iterable[Path] = ()) -> str:
    """Make the token of the user's own programs, a new one for each start: who got the last one has nothing.

    Programs that were started before an upgrade read it in one of `former_dirs`.

    Raises:
        OSError, lm_tools_bridge.machine.private_files.UnsafePathError: the file cannot be used.
    """
    token = new_token()
    private_files.make_private(runtime_dir)
    for folder in (runtime_dir, *(folder for folder in former_dirs if read_own_token(folder) is not None)):
        private_files.write(folder / FILE, token.encode())
    return token


def remove_own_token(runtime_dir: Path) -> None:
    """Remove the file: no token is required any more. Raises OSError if that is impossible."""
    (runtime_dir / FILE).unlink(missing_ok=True)
