"""Converts the diagnostics of language servers to those of results: merged, in order, previewed. Blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.server import FileDiagnostics, PositionEncoding
from lm_tools_bridge.code_intelligence.tools.definitions import SEVERITIES
from lm_tools_bridge.code_intelligence.tools.texts import WITHHELD, Texts
from lm_tools_bridge.code_intelligence.wire import positions
from lm_tools_bridge.code_intelligence.wire.positions import Span, span_from_server

MAX_PREVIEW_LINES: Final = 10
"""A range of more lines is a whole function, which says nothing about its error."""
MAX_PREVIEW_WIDTH: Final = 500
"""Characters: longer lines are generated, or data."""
MAX_MESSAGE: Final = 2000
"""Characters: messages about types of templates can have many thousands."""
_TAGS: Final = {1: "unnecessary", 2: "deprecated"}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One diagnostic; `severity` counts from 0, `lines` are those of its file."""

    path: Path
    severity: int
    span: Span
    message: str
    source: str | None
    code: str | int | None
    tags: tuple[str, ...]
    lines: Sequence[str] | None

    @property
    def order(self) -> tuple[Any, ...]:
        """Errors come first, then paths and lines."""
        return (self.severity, self.path.as_posix(), positions.order(self.span), self.message)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What two servers say alike of the same text is one diagnostic, whatever each calls it."""
        return (self.path, self.severity, positions.order(self.span), self.message.casefold())

    def structured(self) -> dict[str, Any]:
        """As in `structuredContent`."""
        return {
            "severity": SEVERITIES[self.severity],
            "message": self.message,
            "source": self.source,
            "code": self.code,
            **positions.members(self.span),
            "tags": list(self.tags),
            **self._preview(),
        }

    def text(self, places: str = "") -> str:
        """As one line of the text, for its own place or several of them."""
        return f"[{SEVERITIES[self.severity]}] {places or self.place()}{self._said()}"

    def text_without_place(self) -> str:
        """As one line, for a list of places that follows it."""
        return f"[{SEVERITIES[self.severity]}]{self._said()}"

    def place(self) -> str:
        """Where it is in its file, e.g. `2:7-2:8`."""
        return positions.text(self.span)

    def start(self) -> str:
        """Where it begins in its file, e.g. `2:7`."""
        return f"{self.span.start.line}:{self.span.start.column}"

    def _said(self) -> str:
        source = f" source={self.source}" if self.source is not None else ""
        code = f" code={self.code}" if self.code is not None else ""
        return f"{source}{code} {self.message}"

    def _preview(self) -> dict[str, Any]:
        start, end = self.span.start.line, self.span.end.line
        if self.lines is None or start > len(self.lines):
            return {"preview": "", "previewUnavailable": True, "previewTruncated": False}
        lines = self.lines[start - 1 : min(end, start - 1 + MAX_PREVIEW_LINES)]
        cut = [line[:MAX_PREVIEW_WIDTH] for line in lines]
        return {
            "preview": "\n".join(cut),
            "previewUnavailable": False,
            "previewTruncated": end - start >= MAX_PREVIEW_LINES or cut != list(lines),
        }


def diagnostics_of(
    files: Iterable[FileDiagnostics], encoding: PositionEncoding, texts: Texts
) -> Iterable[Diagnostic]:
    """The diagnostics of one server; those that are no LSP diagnostics are left out.

    Of a file that must not be shown, only places, severities and codes are left.
    """
    for file in files:
        for raw in file.diagnostics:
            if isinstance(raw, Mapping) and (
                span := span_from_server(raw.get("range"), file.lines, encoding)
            ):
                yield _diagnostic(raw, file, span, texts)


def _diagnostic(raw: Mapping[str, Any], file: FileDiagnostics, span: Span, texts: Texts) -> Diagnostic:
    severity, code, source = raw.get("severity"), raw.get("code"), raw.get("source")
    is_known = isinstance(severity, int) and 1 <= severity <= len(SEVERITIES)
    tags, message = raw.get("tags"), _message(raw.get("message"))
    return Diagnostic(
        file.path,
        int(severity or 1) - 1 if is_known else 0,
        span,
        message if texts.may_say(message, [file.path]) else WITHHELD,
        source if isinstance(source, str) and source else None,
        code if isinstance(code, (str, int)) and not isinstance(code, bool) else None,
        tuple(_TAGS[tag] for tag in tags if isinstance(tag, int) and tag in _TAGS)
        if isinstance(tags, list)
        else (),
        texts.showable_lines(file.lines),
    )


def _message(value: Any) -> str:
    """The message in one line; a server may send it as marked up text."""
    text = value.get("value") if isinstance(value, Mapping) else value
    return " ".join(text.split())[:MAX_MESSAGE] if isinstance(text, str) else ""


def merged(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """All diagnostics in order, each once."""
    by_identity: dict[tuple[Any, ...], Diagnostic] = {}
    for diagnostic in diagnostics:
        by_identity.setdefault(diagnostic.identity, diagnostic)
    return sorted(by_identity.values(), key=lambda diagnostic: diagnostic.order)
