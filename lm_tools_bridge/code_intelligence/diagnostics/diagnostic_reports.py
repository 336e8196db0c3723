"""Reads the answers to `textDocument/diagnostic` and `workspace/diagnostic`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.wire.document_uris import to_path

MAX_ITEMS: Final = 50_000
"""Diagnostics of one answer: no caller is shown as many, and a server in error could send any number."""
MAX_FILES: Final = 20_000
"""Files of one answer, for the same reason."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a server answered about one file.

    Attributes:
        items: LSP `Diagnostic` objects; None if they are those of the result with the id that we named.
        result_id: names this result in a later request.
        version: of the document that it is about, where the server says so.
    """

    items: Sequence[Mapping[str, Any]] | None
    result_id: str | None = None
    version: int | None = None


def read_report(answer: Any) -> Report | None:
    """The report about the file that was asked for; None if this is no report. gopls leaves `kind` empty."""
    if not isinstance(answer, Mapping):
        return None
    result_id, version = answer.get("resultId"), answer.get("version")
    identity = result_id if isinstance(result_id, str) else None
    number = version if isinstance(version, int) and not isinstance(version, bool) else None
    if answer.get("kind") == "unchanged":
        return Report(None, identity, number)
    items = answer.get("items")
    if not isinstance(items, list):
        return None
    return Report(tuple(item for item in items[:MAX_ITEMS] if isinstance(item, Mapping)), identity, number)


def related_reports(answer: Any) -> dict[Path, Report]:
    """What the answer says about other files (`relatedDocuments`)."""
    related = answer.get("relatedDocuments") if isinstance(answer, Mapping) else None
    if not isinstance(related, Mapping):
        return {}
    pairs = ((to_path(uri, Path), read_report(report)) for uri, report in list(related.items())[:MAX_FILES])
    return {path: report for path, report in pairs if path is not None and report is not None}


def workspace_reports(answer: Any) -> dict[Path, Report] | None:
    """What a `workspace/diagnostic` answer says, by file; None if this is no such answer."""
    items = answer.get("items") if isinstance(answer, Mapping) else None
    if not isinstance(items, list):
        return None
    reports: dict[Path, Report] = {}
    room = MAX_ITEMS
    for item in items[:MAX_FILES]:
        path = to_path(item.get("uri"), Path) if isinstance(item, Mapping) else None
        report = read_report(item)
        if path is not None and report is not None:
            within_limit = None if report.items is None else report.items[:room]
            room -= len(within_limit or ())
            reports[path] = Report(within_limit, report.result_id, report.version)
    return reports
