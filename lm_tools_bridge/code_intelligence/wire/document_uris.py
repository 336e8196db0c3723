"""Converts file paths to `file:` URIs and back. Pure: the file system is not asked.

Servers write the same file differently (`file:///c%3A/x`, `file:///C:/x`), so compare paths, never URIs.
"""

from __future__ import annotations

import os
import re
from pathlib import PurePath, PureWindowsPath
from typing import Final, TypeVar
from urllib.parse import quote_from_bytes, unquote_to_bytes

_P = TypeVar("_P", bound=PurePath)
_SCHEME: Final = re.compile(r"file:", re.IGNORECASE)
_DRIVE: Final = re.compile(r"[/\\]+([A-Za-z])(?::|%3[Aa])")
_LOCAL: Final = frozenset({"", "localhost"})
MAX_URI: Final = 16_384
"""Longer ones are no paths on any system."""


def to_uri(path: PurePath) -> str:
    """The URI of an absolute path. Bytes of a name that are not UTF-8 keep their value."""
    if isinstance(path, PureWindowsPath):
        text = path.as_posix()
        if text.startswith("//"):  # //server/share/folder
            return "file:" + _quote(text)
        return "file:///" + text[:2] + _quote(text[2:])
    return "file://" + _quote(str(path))


def to_path(uri: object, kind: type[_P]) -> _P | None:
    """The path in a URI; None if it is no URI of a file on this machine.

    Args:
        uri: whatever a server sent.
        kind: the class of the path: `Path`, or one of the pure classes.
    """
    if not isinstance(uri, str) or len(uri) > MAX_URI or (scheme := _SCHEME.match(uri)) is None:
        return None
    authority, path = _split(uri[scheme.end() :])
    windows = issubclass(kind, PureWindowsPath)
    if authority.lower() not in _LOCAL:
        if not windows:
            return None
        path = f"//{authority}{path}"
    try:
        if "%" not in path:
            name = path
        else:
            name = os.fsdecode(unquote_to_bytes(path)) if not windows else unquote_to_bytes(path).decode()
    except UnicodeDecodeError:
        return None
    if windows and (drive := _DRIVE.match(name)) is not None:
        name = f"{drive.group(1).upper()}:{name[drive.end() :]}"
    path_of_name = kind(name)
    if "\0" in name or not path_of_name.is_absolute() or (".." in name and ".." in path_of_name.parts):
        return None
    return path_of_name


def _split(rest: str) -> tuple[str, str]:
    """Authority and path of what stands behind the scheme."""
    if not rest.startswith("//"):
        return "", rest
    authority, slash, path = rest[2:].partition("/")
    return authority, slash + path


def _quote(text: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogateescape"), safe="/")
