"""Converts between our `lm_getDiagnostics` and that of a window, whose arguments differ by version. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

TOOL: Final = "lm_getDiagnostics"
SEVERITIES: Final = ("error", "warning", "information", "hint")
MAX_RESULTS: Final = 2000
"""A project in the middle of a change may have tens of thousands, which no model reads; each has some 300
bytes."""
MAX_NAMED: Final = 50
"""Files that are named in one question; with more, all files are asked about."""


class _Item(msgspec.Struct, rename="camel"):
    severity: str
    message: str
    start_line: int
    start_character: int
    end_line: int
    end_character: int
    source: str | None = None
    code: str | int | None = None
    tags: list[str] = []


class _File(msgspec.Struct, rename="camel"):
    absolute_path: str
    diagnostics: list[_Item] = []


class _Answer(msgspec.Struct, rename="camel"):
    files: list[_File]


class _Result(msgspec.Struct, rename="camel"):
    structured_content: _Answer
    is_error: bool = False


def arguments(schema: Mapping[str, Any], paths: Sequence[Path] | None) -> dict[str, Any]:
    """The arguments for the window's tool: about these files, or about all where it cannot be asked so.

    Args:
        schema: the input schema of its tool.
        paths: real paths; None for the whole workspace.
    """
    members: dict[str, Any] = {"severities": list(SEVERITIES), "maxResults": MAX_RESULTS}
    names = [str(path) for path in paths or ()]
    properties = schema.get("properties", {})
    if "filePaths" in properties and 0 < len(names) <= MAX_NAMED:
        members["filePaths"] = names
    elif "filePath" in properties and len(names) == 1:
        members["filePath"] = names[0]
    return members


def read(result: msgspec.Raw) -> Mapping[Path, Sequence[Mapping[str, Any]]] | None:
    """The problems by file, as LSP diagnostics in UTF-16.

    None for a result that is an error, or none that can be read.
    """
    try:
        answer = msgspec.json.decode(result, type=_Result)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if answer.is_error:
        return None
    content = answer.structured_content
    files = {Path(file.absolute_path): list(_diagnostics(file.diagnostics)) for file in content.files}
    return {path: items for path, items in files.items() if path.is_absolute() and items}


_TAGS: Final = {"unnecessary": 1, "deprecated": 2}


def _diagnostics(items: Sequence[_Item]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        if item.severity not in SEVERITIES:
            continue
        places = [item.start_line, item.start_character, item.end_line, item.end_character]
        start_line, start, end_line, end = (max(0, place - 1) for place in places)
        yield {
            "severity": SEVERITIES.index(item.severity) + 1,
            "message": item.message,
            "source": item.source,
            "code": item.code,
            "tags": [_TAGS[tag] for tag in item.tags if tag in _TAGS],
            "range": {
                "start": {"line": start_line, "character": start},
                "end": {"line": end_line, "character": end},
            },
        }
