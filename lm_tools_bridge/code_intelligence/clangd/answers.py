"""Writes answers and failures of the clangd tools as texts and as structured content. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.tools.symbols.places import Place
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire import positions
from workspace_server.results import clean_text
from workspace_server.tool import ToolResult

SEPARATOR: Final = "\n---\n"
MAX_PREVIEW: Final = 300
"""Characters of a line in a preview: a longer one is generated code, or data."""
FailureCode = Literal[
    "CLANGD_CLIENT_UNAVAILABLE",  # it is there, but cannot be started, or ended again
    "CLANGD_NOT_FOUND",  # no program was found
    "CLANGD_START_DISABLED",  # it does not run, and calls may not start it
    "CLANGD_START_TIMEOUT",  # it took too long to start
    "INVALID_INPUT",
    "METHOD_NOT_ALLOWED",
    "REQUEST_FAILED",
    "REQUEST_TIMEOUT",
    "WORKSPACE_UNTRUSTED",  # it waits for `lmtb trust`
]
_NEXT_STEPS: Final[dict[FailureCode, str]] = {
    "CLANGD_CLIENT_UNAVAILABLE": "See lm_clangd_status; `lmtb log` has what clangd wrote.",
    "CLANGD_NOT_FOUND": "Install clangd, or run: lmtb languages install clangd",
    "CLANGD_START_DISABLED": "Set clangd.autoStartOnInvoke = true in workspace.toml.",
    "CLANGD_START_TIMEOUT": "Try again in a few seconds.",
    "REQUEST_FAILED": "Check the file and the position; after an edit, try again.",
    "REQUEST_TIMEOUT": "Try again, or raise clangd.requestTimeoutMs in workspace.toml.",
    "WORKSPACE_UNTRUSTED": "Ask the user to run: lmtb trust",
}


class ClangdFailure(Exception):
    """A tool cannot answer.

    Attributes:
        code: see `FailureCode`.
        message: the cause, for a model.
    """

    def __init__(self, code: FailureCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = clean_text(message)

    def result(self) -> ToolResult:
        """The failure as a tool's result: `[CODE] message`, then the next step."""
        step = _NEXT_STEPS.get(self.code)
        text = f"[{self.code}] {self.message}" + (f"\nNext step: {step}" if step else "")
        return ToolResult(text, {"error": {"code": self.code, "message": self.message}}, is_error=True)


@dataclass(frozen=True, slots=True)
class Counts:
    """How many entries there are, and how many are shown."""

    total: int
    number_shown: int

    def structured(self) -> dict[str, int | bool]:
        """As in `structuredContent`."""
        return {"total": self.total, "shown": self.number_shown, "truncated": self.number_shown < self.total}


@dataclass(frozen=True, slots=True)
class Entry:
    """One place, as `<path>#<line or range>`, and what is there."""

    place: str
    summary: str


@dataclass(frozen=True, slots=True)
class Section:
    """A titled block of lines. Without lines it says that there is nothing."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool says.

    Attributes:
        kind: which tool's answer it is, e.g. `symbolReferences`.
        counts: of its entries; None for a tool that does not count in its structured content.
        structured: its own members.
        sections, entries: of its text.
        extras: more members of the first line of its text.
        text_counts: for the first line of its text, where `counts` is None.
    """

    kind: str
    counts: Counts | None
    structured: Mapping[str, Any]
    sections: Sequence[Section] = ()
    entries: Sequence[Entry] = ()
    extras: Mapping[str, object] = field(default_factory=dict)
    text_counts: Counts | None = None

    def members(self) -> dict[str, Any]:
        """Its members in `structuredContent`, with the counts if it has any."""
        counts = {} if self.counts is None else {"counts": self.counts.structured()}
        return {**counts, **self.structured}

    def result(self, freshness: Freshness | None) -> ToolResult:
        """The result of a call. A freshness that limits it stands in the first line and in a section."""
        extras, sections = dict(self.extras), list(self.sections)
        if freshness is not None and freshness.state != "fresh":
            extras["freshness"] = freshness.state
            sections.insert(0, Section("FRESHNESS", [freshness.text()]))
        counts = self.counts or self.text_counts or Counts(len(self.entries), len(self.entries))
        structured = {"kind": self.kind, **self.members()}
        if freshness is not None:
            structured["freshness"] = freshness.structured()
        return ToolResult(write_text(self.kind, counts, extras, sections, self.entries), structured)


def write_text(
    kind: str,
    counts: Counts,
    extras: Mapping[str, object],
    sections: Sequence[Section] = (),
    entries: Sequence[Entry] = (),
) -> str:
    """The text of a result: a line with the counts and extras, the sections, then the entries."""
    members = {**counts.structured(), "kind": kind, **extras}
    head = "counts " + " ".join(f"{name}={_word(value)}" for name, value in members.items())
    blocks = [
        "\n".join([f"[{section.title}]", *map(_no_separator, section.lines or ["(none)"])])
        for section in sections
    ]
    pairs = [f"{entry.place}\n{entry.summary}" for entry in entries]
    return clean_text(SEPARATOR.join([head, *blocks, *pairs]))


def _no_separator(line: str) -> str:
    return f" {line}" if line == "---" else line


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def place_text(place: Place, workplace: Workplace) -> str:
    """A place as in texts: `path#line`, or `path#first-last` for several lines."""
    return f"{workplace.shown_path(place.path)}#{positions.lines(place.span)}"


def preview(place: Place) -> str | None:
    """The line on which a place begins; None if its file could not be read."""
    line = place.span.start.line
    if place.lines is None or line > len(place.lines):
        return None
    return clean_text(place.lines[line - 1].strip()[:MAX_PREVIEW])


def location(place: Place, workplace: Workplace) -> dict[str, Any]:
    """A place as in `structuredContent`."""
    absolute, in_workspace = workplace.names(place.path)
    line = preview(place)
    return {
        "absolutePath": absolute,
        "workspacePath": in_workspace,
        **positions.members(place.span),
        **({} if line is None else {"preview": line}),
    }
