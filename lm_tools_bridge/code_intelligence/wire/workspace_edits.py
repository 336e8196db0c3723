"""Reads the `WorkspaceEdit` of a server, and applies text edits to a text. Pure: files are the caller's.

An edit at a wrong place destroys a file. So positions are not moved into the text here: an edit that does
not fit is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from lm_tools_bridge.code_intelligence.wire.document_uris import to_path
from lm_tools_bridge.code_intelligence.wire.positions import Position, from_server, split_lines, to_server

MAX_OPERATIONS: Final = 10_000
"""Files of one edit; `tools/editing/change.py` refuses more than 2,000 of them, and says so."""
MAX_EDITS: Final = 200_000
"""Changes of one edit: a name that stands everywhere in a large project is used less often."""


@dataclass(frozen=True, slots=True)
class EditFile:
    """Changes the text of a file: LSP `TextEdit` objects, and the version that they are about, if any."""

    path: Path
    edits: Sequence[Mapping[str, Any]]
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CreateFile:
    """Makes an empty file."""

    path: Path
    overwrite: bool = False
    ignore_if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameFile:
    """Moves a file or folder."""

    path: Path
    new_path: Path
    overwrite: bool = False
    ignore_if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Removes a file or folder."""

    path: Path
    recursive: bool = False
    ignore_if_not_exists: bool = False


Operation = EditFile | CreateFile | RenameFile | DeleteFile


@dataclass(frozen=True, slots=True)
class EditRefused:
    """An edit that cannot be applied. `reason` is for a model."""

    reason: str


def read_workspace_edit(edit: Any) -> Sequence[Operation] | EditRefused:
    """What a `WorkspaceEdit` does, in order. Null does nothing.

    `documentChanges` wins over `changes`, as LSP says. Consecutive edits of one file become one.
    """
    if edit is None:
        return []
    if not isinstance(edit, Mapping):
        return EditRefused("the server's edit is no object")
    changes, mapped = edit.get("documentChanges"), edit.get("changes")
    if changes is None and mapped is not None:
        if not isinstance(mapped, Mapping):
            return EditRefused("the `changes` of the server's edit are no object")
        changes = [
            {"textDocument": {"uri": uri, "version": None}, "edits": edits} for uri, edits in mapped.items()
        ]
    if changes is None:
        return []
    if not isinstance(changes, Sequence) or isinstance(changes, str) or len(changes) > MAX_OPERATIONS:
        return EditRefused(f"the server's edit is no list of at most {MAX_OPERATIONS} changes")
    return _read_all(changes)


def apply_edits(
    text: str, edits: Sequence[Mapping[str, Any]], encoding: PositionEncoding
) -> str | EditRefused:
    """The text with all edits, whose positions are about the text as it is; line ends stay.

    Insertions at one place keep their order. An end beyond the text is its end, because servers that replace
    everything write it so. Everything else must fit exactly.
    """
    lines = split_lines(text)
    starts = _line_starts(text, lines)
    replacements = []
    for edit in edits:
        replacement = _placed(edit, text, lines, starts, encoding)
        if isinstance(replacement, EditRefused):
            return replacement
        replacements.append(replacement)
    replacements.sort(key=lambda replacement: replacement[:2])  # stable
    pieces, end_of_last = [], 0
    for start, end, new in replacements:
        if start < end_of_last:
            return EditRefused("two changes of the server's edit overlap")
        pieces += [text[end_of_last:start], new]
        end_of_last = end
    return "".join([*pieces, text[end_of_last:]])


def _read_all(changes: Sequence[Any]) -> Sequence[Operation] | EditRefused:
    operations: list[Operation] = []
    edits = 0
    for change in changes:
        operation = _read_operation(change)
        if isinstance(operation, EditRefused):
            return operation
        if isinstance(operation, EditFile):
            edits += len(operation.edits)
            last = operations[-1] if operations else None
            if isinstance(last, EditFile) and last.path == operation.path:
                operations[-1] = EditFile(last.path, [*last.edits, *operation.edits], last.version)
                continue
        operations.append(operation)
    if edits > MAX_EDITS:
        return EditRefused(f"the server's edit has {edits} changes; the limit is {MAX_EDITS}")
    return operations


def _read_operation(change: Any) -> Operation | EditRefused:
    if not isinstance(change, Mapping):
        return EditRefused("a change of the server's edit is no object")
    options = change.get("options")
    flags = options if isinstance(options, Mapping) else {}
    overwrite = flags.get("overwrite") is True
    match change.get("kind"):
        case None:
            return _read_file_edit(change)
        case "create":
            path = to_path(change.get("uri"), Path)
            return _no_path(change) if path is None else CreateFile(path, overwrite, _ignores(flags))
        case "rename":
            path, new = to_path(change.get("oldUri"), Path), to_path(change.get("newUri"), Path)
            if path is None or new is None:
                return _no_path(change)
            return RenameFile(path, new, overwrite, _ignores(flags))
        case "delete":
            path = to_path(change.get("uri"), Path)
            missing_is_fine = flags.get("ignoreIfNotExists") is True
            recursive = flags.get("recursive") is True
            return _no_path(change) if path is None else DeleteFile(path, recursive, missing_is_fine)
        case other:
            return EditRefused(f"the server's edit has an unknown change: {str(other)[:40]}")


def _ignores(options: Mapping[str, Any]) -> bool:
    return options.get("ignoreIfExists") is True


def _no_path(change: Mapping[str, Any]) -> EditRefused:
    return EditRefused(f"the server's edit names no file of this machine in a change ({change.get('kind')})")


def _read_file_edit(change: Mapping[str, Any]) -> EditFile | EditRefused:
    document, edits = change.get("textDocument"), change.get("edits")
    path = to_path(document.get("uri"), Path) if isinstance(document, Mapping) else None
    if path is None or not isinstance(document, Mapping):
        return _no_path({"kind": "edit"})
    if not isinstance(edits, Sequence) or isinstance(edits, str):
        return EditRefused("the server's edit has no list of edits for a file")
    for edit in edits:
        if not isinstance(edit, Mapping) or not isinstance(edit.get("newText"), str):
            return EditRefused("the server's edit has a text edit without a text; snippets are not supported")
    version = document.get("version")
    return EditFile(path, edits, version if isinstance(version, int) else None)


def _line_starts(text: str, lines: Sequence[str]) -> list[int]:
    starts, at = [], 0
    for line in lines:
        starts.append(at)
        at += len(line)
        at += 2 if text.startswith("\r\n", at) else 1
    return starts


def _placed(
    edit: Mapping[str, Any],
    text: str,
    lines: Sequence[str],
    starts: Sequence[int],
    encoding: PositionEncoding,
) -> tuple[int, int, str] | EditRefused:
    """Offsets of the start and end of an edit, and its text."""
    where = edit.get("range")
    if not isinstance(where, Mapping):
        return EditRefused("the server's edit has a text edit without a range")
    start = _offset(where.get("start"), text, lines, starts, encoding)
    end = _offset(where.get("end"), text, lines, starts, encoding)
    if end is None and start is not None and _is_beyond(where.get("end"), lines):
        end = len(text)
    if start is None or end is None or end < start:
        return EditRefused(
            "the server's edit has a position that the file does not have; it may have changed"
        )
    return start, end, str(edit.get("newText"))


def _offset(
    value: Any, text: str, lines: Sequence[str], starts: Sequence[int], encoding: PositionEncoding
) -> int | None:
    """The offset of a position; None if the text does not have it, or it lies inside a character."""
    if isinstance(value, Mapping) and value.get("line") == len(lines) and value.get("character") == 0:
        return len(text)  # the line behind the last
    position = from_server(value, lines, encoding)
    if position is None or to_server(position, lines, encoding) != {
        name: value.get(name) for name in ("line", "character")
    }:
        return None
    return _at(position, starts)


def _at(position: Position, starts: Sequence[int]) -> int:
    return starts[position.line - 1] + position.column - 1


def _is_beyond(value: Any, lines: Sequence[str]) -> bool:
    position = from_server(value, None, "utf-32")
    return position is not None and position.line > len(lines)
