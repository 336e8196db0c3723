"""Prints long texts page by page on a terminal, so that nothing scrolls away before it was read."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator

import click

_KEPT_ROWS = 2
"""Rows of a page that stay free, for the question below it."""


def is_terminal() -> bool:
    """Whether a person can read and answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def show(lines: Iterable[str]) -> bool:
    """Print lines, on a terminal with a pause after each page; returns whether the reader saw all of them."""
    if not is_terminal():
        for line in lines:
            click.echo(line)
        return True
    size = shutil.get_terminal_size()
    pages = list(_pages(lines, size.columns, max(size.lines - _KEPT_ROWS, 1)))
    for number, page in enumerate(pages, 1):
        for line in page:
            click.echo(line)
        if number < len(pages) and not _goes_on(f"-- page {number} of {len(pages)}; Enter: next, q: quit --"):
            return False
    return True


def _pages(lines: Iterable[str], columns: int, rows: int) -> Iterator[list[str]]:
    page: list[str] = []
    used = 0
    for line in lines:
        height = sum(max(1, -(-len(part) // columns)) for part in click.unstyle(line).split("\n"))
        if page and used + height > rows:
            yield page
            page, used = [], 0
        page.append(line)
        used += height
    yield page


def _goes_on(question: str) -> bool:
    answer: str = click.prompt(question, default="", show_default=False, prompt_suffix=" ")
    return not answer.lower().startswith("q")
