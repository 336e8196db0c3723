"""Reads the relative paths of a call from the folder of the project in which its agent works.

An agent in `packages/web` means its own `src/app.ts`. What is not there is read from the root, and what
results print as `Folder/…` always leads back to where it was found. A glob that begins with a name is read
like a path; other globs search the whole project. Blocks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from workspace_server.results import well_formed
from workspace_server.sources.builtin.files.patterns import (
    MAX_LENGTH,
    BadGlob,
    existing_parts,
    expand_braces,
    fixed_parts,
)
from workspace_server.tool import ToolResult
from workspace_server.workspace import Workspace

PATHS: Final = frozenset({"filePath", "scopePath"})
"""The arguments of our tools that hold a path, also below other arguments."""
_MAX_DEPTH: Final = 3
"""The deepest path argument is `params.textDocument.filePath` of the clangd tools."""
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:/")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_WILD: Final = re.compile(r"[*?\[\]{}\\]")
_ESCAPED: Final = re.compile(r"\\([\[\](){}])")
_CLOSING: Final = re.compile(r"\\[\])}]")
"""A backslash before these does not separate: then those before opening brackets do not either."""


class Reading(NamedTuple):
    """The arguments of a call with its paths as they are meant, and what its result says about that."""

    arguments: Mapping[str, Any]
    note: str = ""

    def noted(self, result: ToolResult) -> ToolResult:
        """The result with the note: as the second line of its text, and as `note`."""
        if not self.note:
            return result
        first, line_end, rest = result.text.partition("\n")
        structured = result.structured
        if isinstance(structured, Mapping):
            notes = [self.note, *([structured["note"]] if "note" in structured else [])]
            structured = {**structured, "note": "; ".join(notes)}
        return replace(result, text=f"{first}\nnote: {self.note}{line_end}{rest}", structured=structured)


def read_arguments(
    workspace: Workspace, folder: str, arguments: Mapping[str, Any], globs: Sequence[str] = ()
) -> Reading:
    """The arguments as an agent in `folder` means them: what it names in its folder becomes absolute.

    Args:
        workspace: the project.
        folder: relative to the root, as a request named it; one that cannot be is ignored.
        arguments: the arguments of one of our tools.
        globs: the names of the arguments that hold a glob.
    """
    own = _own_folder(workspace, folder)
    if own is None:
        return Reading(arguments)
    reader = _Reader(workspace, own)
    read = reader.paths(arguments)
    for name in globs:
        if isinstance(read.get(name), str):
            read = {**read, name: reader.glob(read[name])}
    return Reading(read, "; ".join(reader.notes))


def _own_folder(workspace: Workspace, folder: str) -> Path | None:
    """The real path of an existing folder below the root; None for any other text."""
    parts = folder.split("/")
    if not {"", ".", ".."}.isdisjoint(parts) or "\0" in folder or _ABSOLUTE.match(folder):
        return None
    try:
        real = Path(os.path.realpath(workspace.root / folder))
        is_below = workspace.contains(real) and real != workspace.root and real.is_dir()
    except (OSError, ValueError):
        return None
    return real if is_below else None


class _Reader:
    """Reads paths and globs for an agent in the folder `own`.

    Attributes:
        notes: which were read from that folder, for the result.
    """

    def __init__(self, workspace: Workspace, own: Path) -> None:
        self._workspace = workspace
        self._own = own
        self.notes: list[str] = []

    def paths(self, arguments: Mapping[str, Any], depth: int = 1) -> Mapping[str, Any]:
        """The arguments with each path as it is meant."""
        read = dict(arguments)
        for name, value in arguments.items():
            if name in PATHS and isinstance(value, str):
                read[name] = self._path(value)
            elif isinstance(value, Mapping) and depth < _MAX_DEPTH:
                read[name] = self.paths(value, depth + 1)
        return read

    def glob(self, text: str) -> str:
        """The glob; each alternative that begins with a name in the folder is absolute."""
        plain = re.sub(r"[\\/]+", "/", _ESCAPED.sub(r"\1", text) if _CLOSING.search(text) else text)
        is_spelled = "{" in "".join(self._existing(plain))  # a folder may be named `{x,y}`
        try:
            alternatives = [plain] if is_spelled else expand_braces(plain)
        except BadGlob:  # the tool says what is wrong with it
            return text
        read = [self._alternative(each) for each in alternatives]
        if read == alternatives or (not is_spelled and any("," in each for each in read)):
            return text
        joined = read[0] if len(read) == 1 else f"{{{','.join(read)}}}"
        return joined if len(joined) <= MAX_LENGTH else text

    def _path(self, text: str) -> str:
        plain = text.replace("\\", "/")
        if not plain or "\0" in plain or _ABSOLUTE.match(plain) or _URI.match(plain):
            return text
        own = self._place(self._own, plain)
        is_own = own is not None and _exists(own)
        if self._is_printed(plain):
            if is_own:
                self._note(f"{plain} was read from the root; {self._shown(own)} is another file")
            return text
        if own is None:
            return text
        at_root = self._root_place(plain)
        if is_own:
            self._note_own(plain, at_root, own)
            return str(own)
        # neither is there: the error is about the folder, if the rest of the path is there
        return str(own) if at_root is None and _exists(own.parent) else text

    def _alternative(self, glob: str) -> str:
        plain = glob.removeprefix("./")
        parts, fixed = plain.split("/"), max(fixed_parts(plain), self._existing(plain), key=len)
        name = "/".join(fixed)
        if len(parts) < 2 or not name or _ABSOLUTE.match(plain) or self._is_printed(name):
            return glob
        own = self._place(self._own, name)
        if own is None or not _exists(own):
            return glob
        self._note_own(glob, self._root_place(name), own)
        return "/".join([self._as_glob(own), *parts[len(fixed) :]])

    def _existing(self, glob: str) -> list[str]:
        """The components at the beginning of a glob that spell a path in the own folder, as `[id]` does."""
        parts = glob.removeprefix("./").split("/")
        return parts[: existing_parts(self._own, parts)]

    def _as_glob(self, path: Path) -> str:
        """A glob for this path, absolute where it can be told from one."""
        root = str(self._workspace.root)
        if _WILD.search(root):  # the root itself would be read as a glob
            return _WILD.sub("?", path.relative_to(root).as_posix())
        return root + _WILD.sub("?", path.as_posix().removeprefix(root))

    def _is_printed(self, text: str) -> bool:
        """Whether the path is one that results print: `Folder/…`."""
        head, _, rest = text.partition("/")
        for folder in self._workspace.folders:
            if folder.name == head and rest:
                place = self._place(folder.path, rest)
                return place is not None and _exists(place)
        return False

    def _root_place(self, text: str) -> Path | None:
        """What the path names at the root; None if nothing is there."""
        for folder in self._workspace.folders:
            place = self._place(folder.path, text)
            if place is not None and _exists(place):
                return place
        return None

    def _place(self, base: Path, text: str) -> Path | None:
        """The real path of `text` below `base`; None outside the workspace."""
        try:
            real = Path(os.path.realpath(base / text))
        except (OSError, ValueError):
            return None
        return real if self._workspace.contains(real) else None

    def _note_own(self, text: str, at_root: Path | None, own: Path) -> None:
        if at_root == own:
            return
        also = "" if at_root is None else f"; the root has another: {self._shown(at_root)}"
        self._note(f"{text} was read from {self._shown(self._own)}{also}")

    def _note(self, text: str) -> None:
        self.notes.append(well_formed(text))

    def _shown(self, path: Path | None) -> str:
        return "" if path is None else self._workspace.workspace_path(path) or str(path)


def _exists(path: Path) -> bool:
    """Whether anything is there; False, too, for names that no disk takes."""
    return os.path.exists(path)  # noqa: PTH110  the method of the path would fail for them
