"""What a client's text for its working directory means, before the disk is asked.

Pure: it decides from the text alone which paths may be meant. Whether one of them exists is for
`manager.filesystem`, which workspace it belongs to for `matching.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from manager.folder import CwdProblem, CwdProblemKind

MAX_BYTES: Final = 4096
"""Longest path that is looked at, in bytes of UTF-8."""


@dataclass(frozen=True, slots=True)
class CwdCandidates:
    """One or two absolute paths that may be meant, the likelier first; the first that exists is it."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoCwd:
    """Nothing was said: not a string, blank, or (from an ambient source) a placeholder nobody expanded."""


# A text that *begins* with one of these was meant to be expanded by a shell or an editor; what follows does
# not matter (`${workspaceFolder}/api`). None of the forms can begin an absolute path.
_PLACEHOLDER: Final = re.compile(
    r"""\s*(?:file:/*)?(?:
        \$\{ | \$\( | \$[A-Za-z_]           # ${PWD}  $(pwd)  $PWD  $env:PWD
      | %[A-Za-z_][^%\n]*%                  # %CD%  %CD:~0,-1%
      | [\ufffd\udccd]%                     # %CD% again, percent-decoded
      | \{\{ | \{[A-Za-z_]+:[^}]*\}         # {{cwd}}  {env:PWD}
      | ` | <[A-Za-z]                       # `pwd`  <project path>
    )""",
    re.VERBOSE,
)
_FILE_URI: Final = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_WINDOWS_ABSOLUTE: Final = re.compile(r"[A-Za-z]:\\|\\\\[^\\?.][^\\]*\\[^\\]")


def parse_cwd(text: object, *, ambient: bool, windows: bool) -> CwdCandidates | NoCwd | CwdProblem:
    """Read a cwd as a client sent it. Never raises.

     `ambient` says where it came from: True for what a client's configuration sends along (query, header,
     `_meta`, roots), where an unexpanded placeholder is silence; False for an argument somebody wrote,
     where it is the problem `relative`. `windows` says whose paths are meant. `file:` URIs are decoded
    ; a text with blanks around it is tried as it stands, then trimmed. Paths may hold lone surrogates
     for bytes that are no UTF-8 (PEP 383). Problems found here: `relative`, `malformed`, `too_long`.
    """
    if not isinstance(text, str) or not text.strip():
        return NoCwd()
    if _PLACEHOLDER.match(text):
        return NoCwd() if ambient else CwdProblem(CwdProblemKind.RELATIVE)
    readings = [_read(form, windows=windows) for form in dict.fromkeys((text, text.strip()))]
    paths = tuple(dict.fromkeys(reading for reading in readings if isinstance(reading, str)))
    if paths:
        return CwdCandidates(paths)
    # the trimmed form is the one to complain about: with a blank in front every text is relative
    return next(reading for reading in reversed(readings) if isinstance(reading, CwdProblem))


def _read(text: str, *, windows: bool) -> str | CwdProblem:
    """Give the absolute path that exactly this text means."""
    path = _decode_uri(text) if text[:5].lower() == "file:" else text
    if path is None or "\0" in path:
        return CwdProblem(CwdProblemKind.MALFORMED)
    try:
        # Windows names are UTF-16 with any lone surrogate; POSIX has only those that stand for a byte
        size = len(path.encode("utf-8", "surrogatepass" if windows else "surrogateescape"))
    except UnicodeEncodeError:
        return CwdProblem(CwdProblemKind.MALFORMED)
    if size > MAX_BYTES:
        return CwdProblem(CwdProblemKind.TOO_LONG)
    path = plain_windows_path(path) if windows else path
    absolute = _WINDOWS_ABSOLUTE.match(path) if windows else path.startswith("/")
    return path if absolute else CwdProblem(CwdProblemKind.RELATIVE)


def _decode_uri(uri: str) -> str | None:
    """Give the path of a `file:` URI, or None where it points to another host or is no text.

    `?` and `#` are taken as part of the name: a folder URI has neither, and clients forget to encode them.
    """
    parts = _FILE_URI.fullmatch(uri)
    if parts is None or (parts["host"] or "").lower() not in {"", "localhost"}:
        return None
    try:
        raw = parts["path"].encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None
    return unquote_to_bytes(raw).decode("utf-8", "surrogateescape")


def plain_windows_path(path: str) -> str:
    r"""Write a Windows path the usual way.

    `C:/x`, `/C:/x` (from a URI) and `\\?\C:\x` become `C:\x`; `\\?\UNC\h\s\x` becomes `\\h\s\x`.
    """
    path = path.replace("/", "\\")
    if path[:8].upper() == "\\\\?\\UNC\\":
        return "\\\\" + path[8:]
    return re.sub(r"^(?:\\\\\?)?\\(?=[A-Za-z]:)", "", path)
