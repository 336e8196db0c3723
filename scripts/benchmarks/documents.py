"""Puts texts into documents, between `<!-- bench:begin NAME -->` and `<!-- bench:end NAME -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path


class NoPlace(Exception):
    """The document has no such pair of marks."""


def written(document: str, name: str, text: str) -> str:
    """The document with this text between the marks of that name.

    Raises:
        NoPlace: there is no such pair.
    """
    begin, end = (f"<!-- bench:{word} {name} -->" for word in ("begin", "end"))
    between = re.compile(f"(?<={re.escape(begin)}\n).*?(?={re.escape(end)})", re.DOTALL)
    done, places = between.subn(lambda _: f"\n{text}\n\n", document, count=1)
    if not places:
        raise NoPlace(f"{begin} … {end}")
    return done


def write(file: Path, texts: Mapping[str, str]) -> None:
    """Put all of them into a document, or none."""
    document = file.read_text(encoding="utf-8")
    for name, text in texts.items():
        document = written(document, name, text)
    file.write_text(document, encoding="utf-8")
