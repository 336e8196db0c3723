"""Replaces texts in documents between `<!-- bench:begin NAME -->` and `<!-- bench:end NAME -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


class MissingMarkers(Exception):
    """The document has no such pair of markers."""


def replaced(document: str, name: str, text: str) -> str:
    """The document with this text between the markers of that name.

    Raises:
        MissingMarkers: there is no such pair.
    """
    begin, end = (f"<!-- bench:{word} {name} -->" for word in ("begin", "end"))
    between = re.compile(f"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
    result, count = between.subn(lambda _: f"\n{text}\n\n", document, count=1)
    if not count:
        raise MissingMarkers(f"{begin} … {end}")
    return result


def write(file: Path, texts: Mapping[str, str]) -> None:
    """Write all texts into a document, or none if a marker is missing."""
    document = file.read_text(encoding="utf-8")
    for name, text in texts.items():
        document = replaced(document, name, text)
    file.write_text(document, encoding="utf-8")
