"""Writes what a clangd tool found as text and as structured content, both with the freshness. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lm_tools_bridge.code_intelligence.clangd import summary
from lm_tools_bridge.code_intelligence.clangd.summary import Counts, Entry, Section
from lm_tools_bridge.code_intelligence.freshness import Freshness
from workspace_server.tool import ToolResult


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool found.

    Attributes:
        kind: which tool's answer it is, e.g. `symbolReferences`.
        counts: of its entries; None for a tool that does not count in its structured content.
        text_counts: for the first line of its text, where `counts` is None.
        structured: its own members.
        sections, entries: of its text.
        extras: more members of the first line of its text.
    """

    kind: str
    counts: Counts | None
    structured: Mapping[str, Any]
    sections: Sequence[Section] = ()
    entries: Sequence[Entry] = ()
    extras: Mapping[str, object] = field(default_factory=dict)
    text_counts: Counts | None = None


def result(answer: Answer, freshness: Freshness | None) -> ToolResult:
    """The result of a call. A freshness that limits the answer stands in the first line and in a section."""
    limited = freshness is not None and freshness.state != "fresh"
    extras, sections = dict(answer.extras), list(answer.sections)
    if freshness is not None and limited:
        extras["freshness"] = freshness.state
        sections.insert(0, Section("FRESHNESS", [freshness.text()]))
    counts = answer.counts or answer.text_counts or Counts(len(answer.entries), len(answer.entries))
    text = summary.write(answer.kind, counts, sections=sections, entries=answer.entries, extras=extras)
    structured: dict[str, Any] = {"kind": answer.kind}
    if answer.counts is not None:
        structured["counts"] = answer.counts.structured()
    structured |= answer.structured
    if freshness is not None:
        structured["freshness"] = freshness.structured()
    return ToolResult(text, structured)
