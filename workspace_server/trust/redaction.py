"""Replaces secrets in a configuration by hashes, for display and for the trust record. Pure.

Hashing (`item.hashed`) keeps different values different. As little as possible of a command is hidden,
because a person decides by it, and nobody may hide a program behind a word such as `--token`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from workspace_server.trust.item import hashed

_TABLES: Final = frozenset({"env", "headers", "http_headers", "requestinit"})
_ARGUMENTS: Final = frozenset({"command", "args"})
_ADDRESSES: Final = frozenset({"url", "serverurl", "httpurl"})
_SAYS_WHERE: Final = re.compile(r"token_secret|.*_(?:env|env_var|file)")
"""`token_env` names a variable and `token_secret` a stored secret: the names matter and are no secrets."""
_NAMES_SECRETS: Final = "env_secrets"
"""Variables -> names of stored secrets, which a person has to see."""
_WORD: Final = r"(?:token|secret|passw(?:or)?d|api[-_]?key|access[-_]?key|credential|authorization|bearer)"
_SECRET_NAME: Final = re.compile(_WORD, re.IGNORECASE)
_SECRET_FLAG: Final = re.compile(rf"--?[\w-]*{_WORD}[\w-]*", re.IGNORECASE)
_ASSIGNMENT: Final = re.compile(rf"([\w-]*{_WORD}[\w-]*)=(.*)", re.IGNORECASE | re.DOTALL)
_LOOKS_SECRET: Final = re.compile(r"[A-Za-z0-9_\-+=.~:]{8,}")
"""No blank, slash or shell syntax, so neither code nor a path matches."""
_HASH: Final = re.compile(r"(sha256:[0-9a-f]{8})[0-9a-f]{56}")
# Values are walked by recursion, which must end before Python's own limit.
_MAX_DEPTH: Final = 32
_TOO_DEEP: Final = "(nested too deeply)"

IsFile = Callable[[str], bool]


def redacted(written: Mapping[str, Any], is_file: IsFile) -> dict[str, Any]:
    """A configuration entry as written, with its secrets hashed.

    Args:
        written: the entry as JSON values.
        is_file: whether an argument names a file; such an argument is never hidden.
    """
    return {key: _member(key, value, is_file) for key, value in written.items()}


def redacted_arguments(arguments: Sequence[Any], is_file: IsFile) -> list[Any]:
    """A command with the values of `--token`, `API_KEY=` and the like hashed, if they can only be secrets."""
    shown_arguments: list[Any] = []
    after_flag = False
    for argument in arguments:
        if not isinstance(argument, str):
            shown_arguments.append(_hidden(argument) if isinstance(argument, Mapping | list) else argument)
            after_flag = False
            continue
        shown_arguments.append(_argument(argument, after_flag, is_file))
        after_flag = _SECRET_FLAG.fullmatch(argument) is not None
    return shown_arguments


def redacted_url(url: str) -> str:
    """A URL with its credentials and query values hashed."""
    try:
        parts = urlsplit(url)
        names = [quote(name) for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    except ValueError:
        return hashed(url)
    if "@" in parts.netloc:
        user, _, host = parts.netloc.rpartition("@")
        parts = parts._replace(netloc=f"{hashed(user)}@{host}")
    # hashes the whole query: different texts may parse to the same pairs
    query = f"{'&'.join(names)}={hashed(parts.query)}" if parts.query else ""
    return parts._replace(query=query).geturl()


def shortened(text: str) -> str:
    """A text with its hashes cut to 8 digits."""
    return _HASH.sub(r"\1…", text)


def origin(url: str) -> str:
    """Scheme, host and port of a URL; the hash of the whole text if it is not a URL."""
    try:
        parts = urlsplit(url)
        host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return hashed(url)
    return SplitResult(parts.scheme, f"{host or ''}{port}", "", "", "").geturl()


def _member(key: str, value: Any, is_file: IsFile, depth: int = 0) -> Any:
    name = str(key).lower()
    if depth == _MAX_DEPTH:
        return _TOO_DEEP
    if name == _NAMES_SECRETS and isinstance(value, Mapping):
        return {str(variable): str(secret) for variable, secret in value.items()}
    if name in _TABLES or (_SECRET_NAME.search(name) and not _SAYS_WHERE.fullmatch(name)):
        return _hidden(value, depth)
    if name in _ADDRESSES and isinstance(value, str):
        return redacted_url(value)
    if name in _ARGUMENTS and isinstance(value, list | tuple):
        return redacted_arguments(value, is_file)
    if isinstance(value, Mapping):
        return {str(inner): _member(inner, member, is_file, depth + 1) for inner, member in value.items()}
    if isinstance(value, list | tuple):
        return [_member(key, entry, is_file, depth + 1) for entry in value]
    return value


def _hidden(value: Any, depth: int = 0) -> Any:
    if depth == _MAX_DEPTH:
        return _TOO_DEEP
    if isinstance(value, Mapping):
        return {str(key): _hidden(member, depth + 1) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(entry, depth + 1) for entry in value]
    return hashed(value if isinstance(value, str) else f"{type(value).__name__} {value}")


def _argument(argument: str, after_flag: bool, is_file: IsFile) -> str:
    if after_flag and _may_hide(argument, is_file):
        return hashed(argument)
    assignment = _ASSIGNMENT.fullmatch(argument)
    if assignment and _may_hide(assignment[2], is_file):
        return f"{assignment[1]}={hashed(assignment[2])}"
    return argument


def _may_hide(value: str, is_file: IsFile) -> bool:
    return _LOOKS_SECRET.fullmatch(value) is not None and not value.startswith("-") and not is_file(value)
