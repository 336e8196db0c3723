"""Reads what compilers and linters print as LSP diagnostics by file. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import PositionEncoding
from lm_tools_bridge.code_intelligence.specification import CheckFormat

ERROR, WARNING, INFORMATION = 1, 2, 3
PathsWithDiagnostics = Iterator[tuple[str, Mapping[str, Any]]]
"""The path as it is printed, and an LSP diagnostic."""
_SEVERITIES: Final[Mapping[str, int]] = {"error": ERROR, "warning": WARNING, "note": INFORMATION}
_TSC_LINE: Final = re.compile(
    r"(?P<path>[^\s(][^(]*)\((?P<line>\d{1,9}),(?P<column>\d{1,9})\): "
    r"(?P<level>error|warning) (?P<code>TS\d{1,9}): (?P<text>.*)"
)
_GO_LINE: Final = re.compile(
    r"(?:vet: )?(?P<path>[^\s:][^:]*\.go):(?P<line>\d{1,9}):(?:(?P<column>\d{1,9}):)? (?P<text>.*)"
)


@dataclass(frozen=True, slots=True)
class Output:
    """How one tool prints.

    Attributes:
        read: yields its findings from its standard output; lines that are none are left out.
        encoding: the unit of its columns.
        on_stderr: whether it prints findings on standard error.
    """

    read: Callable[[str], PathsWithDiagnostics]
    encoding: PositionEncoding
    on_stderr: bool = False


def _mypy(text: str) -> PathsWithDiagnostics:
    """One JSON object a line; columns count from 0, and -1 stands for none."""
    for item in _objects(text):
        start = (_number(item.get("line"), 1) - 1, max(0, _number(item.get("column"), 0)))
        severity = _SEVERITIES.get(str(item.get("severity")), ERROR)
        hint = item.get("hint")
        message = f"{item.get('message')}{f' {hint}' if isinstance(hint, str) else ''}"
        yield str(item.get("file")), _diagnostic(start, start, severity, message, item.get("code"))


def _tsc(text: str) -> PathsWithDiagnostics:
    for line in text.splitlines():
        if match := _TSC_LINE.fullmatch(line.rstrip()):
            start = (int(match["line"]) - 1, int(match["column"]) - 1)
            severity, code = _SEVERITIES[match["level"]], int(match["code"][2:])
            yield match["path"], _diagnostic(start, start, severity, match["text"], code)


def _eslint(text: str) -> PathsWithDiagnostics:
    """A JSON array of files; lines and columns count from 1."""
    for file in _list(_loaded(text)):
        for item in _list(file.get("messages")):
            start = (_number(item.get("line"), 1) - 1, _number(item.get("column"), 1) - 1)
            end = (
                _number(item.get("endLine"), start[0] + 1) - 1,
                _number(item.get("endColumn"), start[1] + 1) - 1,
            )
            severity = ERROR if item.get("severity") == 2 else WARNING
            yield (
                str(file.get("filePath")),
                _diagnostic(start, end, severity, str(item.get("message")), item.get("ruleId")),
            )


def _cargo(text: str) -> PathsWithDiagnostics:
    """One JSON object a line; a message of the compiler has spans, of which the primary ones count."""
    for line in _objects(text):
        message = line.get("message")
        if line.get("reason") != "compiler-message" or not isinstance(message, Mapping):
            continue
        severity = _SEVERITIES.get(str(message.get("level")))
        code = message.get("code")
        code = code.get("code") if isinstance(code, Mapping) else None
        for span in _list(message.get("spans")):
            if severity is not None and span.get("is_primary") is True:
                start = (_number(span.get("line_start"), 1) - 1, _number(span.get("column_start"), 1) - 1)
                end = (_number(span.get("line_end"), 1) - 1, _number(span.get("column_end"), 1) - 1)
                words = str(message.get("message"))
                yield str(span.get("file_name")), _diagnostic(start, end, severity, words, code)


def _go_vet(text: str) -> PathsWithDiagnostics:
    for line in text.splitlines():
        if match := _GO_LINE.fullmatch(line.rstrip()):
            start = (int(match["line"]) - 1, int(match["column"] or 1) - 1)
            yield match["path"], _diagnostic(start, start, ERROR, match["text"], None)


OUTPUTS: Final[Mapping[CheckFormat, Output]] = {
    "mypy": Output(_mypy, "utf-8"),
    "tsc": Output(_tsc, "utf-16"),
    "eslint": Output(_eslint, "utf-16"),
    "cargo": Output(_cargo, "utf-32"),
    "go-vet": Output(_go_vet, "utf-8", on_stderr=True),
}


def diagnostics(output: Output, text: str, source: str, root: Path) -> dict[Path, list[Mapping[str, Any]]]:
    """The findings by absolute path; those with a path that cannot be one are left out.

    Args:
        output: how the tool prints.
        text: what it printed.
        source: the diagnostics' `source`.
        root: the folder it ran in.
    """
    by_path: dict[Path, list[Mapping[str, Any]]] = {}
    for path, diagnostic in output.read(text):
        if path and "\0" not in path:
            by_path.setdefault(root / path, []).append({**diagnostic, "source": source})
    return by_path


def _diagnostic(
    start: tuple[int, int], end: tuple[int, int], severity: int, message: str, code: Any
) -> Mapping[str, Any]:
    first, last = (_position(*place) for place in (start, max(start, end)))
    members: dict[str, Any] = {
        "range": {"start": first, "end": last},
        "severity": severity,
        "message": message,
    }
    return members if code is None else {**members, "code": code}


def _position(line: int, character: int) -> Mapping[str, int]:
    return {"line": max(0, line), "character": max(0, character)}


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    for line in text.splitlines():
        value = _loaded(line) if line.startswith("{") else None
        if isinstance(value, Mapping):
            yield value


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _list(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []
