"""Parses the working directory that a client sent into candidate paths, without disk access.

`manager/disk/filesystem.py` checks which candidate exists, `matching.py` finds its workspace.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from manager.disk.folder import CwdProblem, CwdProblemKind

MAX_BYTES: Final = 4096
"""Longest accepted path in bytes of UTF-8."""


class CwdCandidates(msgspec.Struct, frozen=True):
    """One or two absolute paths, the likelier first. The first that exists is the working directory."""

    paths: tuple[str, ...]


class NoCwd(msgspec.Struct, frozen=True):
    """No cwd: not a string, blank, or (from an ambient source) an unexpanded placeholder."""


# A text that begins with one of these should have been expanded by a shell or an editor, whatever follows
# (`${workspaceFolder}/api`). No absolute path begins like this.
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
_PLACEHOLDER_TEXT: Final = re.compile(
    r"\$?\{\{?[^{}]*\}?\}|\$\([^()]*\)|\$[\w:]+|%[^%\n]*%|`[^`]*`|<[^<>]*>", re.DOTALL
)
_MAX_PLACEHOLDER: Final = 80
"""Longest placeholder in a text for users, in characters."""
_FILE_URI: Final = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>.*)", re.IGNORECASE | re.DOTALL)
_DRIVE: Final = re.compile(r"[A-Za-z]:[/\\]")
_WINDOWS_ABSOLUTE: Final = re.compile(r"[A-Za-z]:\\|\\\\[^\\?.][^\\]*\\[^\\]")


def placeholder_in(text: object) -> str | None:
    """The placeholder that a text begins with because nobody expanded it, such as `${PWD}`; None for none."""
    if not isinstance(text, str) or (found := _PLACEHOLDER.match(text)) is None:
        return None
    begins = text[found.start() :].lstrip()
    if begins[:5].lower() == "file:":
        begins = begins[5:].lstrip("/")
    if begins[0] in "\ufffd\udccd":
        return "%CD%"  # what is left of it once it was percent-decoded
    whole = _PLACEHOLDER_TEXT.match(begins)
    return (whole[0] if whole else begins)[:_MAX_PLACEHOLDER]


def is_absolute(text: str) -> bool:
    """Whether a text looks like an absolute path of any system."""
    return text.startswith(("/", "\\\\")) or _DRIVE.match(text) is not None


def parse_cwd(text: object, *, ambient: bool, windows: bool) -> CwdCandidates | NoCwd | CwdProblem:
    """Parse a cwd as a client sent it. Never raises.

    `file:` URIs are decoded. A text with surrounding blanks is tried as it is, then trimmed. Paths may
    contain lone surrogates for bytes that are not UTF-8 (PEP 383).

    Args:
        ambient: True for a value from the client's configuration (query, header, `_meta`, roots): an
            unexpanded placeholder counts as absent. False for an argument: a placeholder is the problem
            `relative`.
        windows: whether paths are Windows paths.

    Returns:
        A problem is `relative`, `malformed` or `too_long`.
    """
    if not isinstance(text, str) or not text.strip():
        return NoCwd()
    if _PLACEHOLDER.match(text):
        return NoCwd() if ambient else CwdProblem(CwdProblemKind.RELATIVE)
    readings = [_read(form, windows=windows) for form in dict.fromkeys((text, text.strip()))]
    paths = tuple(dict.fromkeys(reading for reading in readings if isinstance(reading, str)))
    if paths:
        return CwdCandidates(paths)
    # report the trimmed form: with a leading blank every text is relative
    return next(reading for reading in reversed(readings) if isinstance(reading, CwdProblem))


def _read(text: str, *, windows: bool) -> str | CwdProblem:
    """The absolute path that this exact text means."""
    path = _decode_uri(text) if text[:5].lower() == "file:" else text
    if path is None or "\0" in path:
        return CwdProblem(CwdProblemKind.MALFORMED)
    try:
        # Windows names may contain any lone surrogate; POSIX only those that stand for a byte
        size = len(path.encode("utf-8", "surrogatepass" if windows else "surrogateescape"))
    except UnicodeEncodeError:
        return CwdProblem(CwdProblemKind.MALFORMED)
    if size > MAX_BYTES:
        return CwdProblem(CwdProblemKind.TOO_LONG)
    path = plain_windows_path(path) if windows else path
    absolute = _WINDOWS_ABSOLUTE.match(path) if windows else path.startswith("/")
    return path if absolute else CwdProblem(CwdProblemKind.RELATIVE)


def _decode_uri(uri: str) -> str | None:
    """The path of a `file:` URI; None for another host or invalid text.

    `?` and `#` belong to the path: clients forget to encode them, and folder URIs have no query.
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
    r"""Normalise a Windows path.

    `C:/x`, `/C:/x` (from a URI) and `\\?\C:\x` become `C:\x`; `\\?\UNC\h\s\x` becomes `\\h\s\x`.
    """
    path = path.replace("/", "\\")
    if path[:8].upper() == "\\\\?\\UNC\\":
        return "\\\\" + path[8:]
    return re.sub(r"^(?:\\\\\?)?\\(?=[A-Za-z]:)", "", path)
