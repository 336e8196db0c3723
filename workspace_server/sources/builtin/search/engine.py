"""Searches a workspace folder by folder, with ripgrep if it is installed, else in Python.

Both engines return results in the same order: folders in their order, files in walk order (see `tree.py`),
lines by number. A limit keeps the first N of that order.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from workspace_server.sources.builtin.search import fallback, ripgrep
from workspace_server.sources.builtin.search.patterns import query_filters
from workspace_server.sources.builtin.search.query import (
    EngineUnavailable,
    Findings,
    Line,
    Scope,
    SearchSettings,
    TextMatch,
    TextQuery,
)
from workspace_server.sources.builtin.search.tree import Tree
from workspace_server.workspace import Workspace

R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The first results in order; `capped`: there are or may be more; `late`: the deadline passed."""

    items: tuple[T, ...]
    capped: bool
    late: bool


@dataclass(frozen=True, slots=True)
class Where:
    """Which files a call searches.

    Attributes:
        pattern: a glob.
        pointer: JSON pointer of the argument with the glob, for errors.
        include_ignored: whether ignored files are searched, too.
    """

    pattern: str
    pointer: str
    include_ignored: bool = False


async def find_files(workspace: Workspace, where: Where, limit: int, settings: SearchSettings) -> Found[Path]:
    """Find the first `limit` files that match the pattern.

    Raises:
        InvalidArguments: the pattern is invalid; at `where.pointer`.
    """

    async def search(program: str | None, scope: Scope, budget: int, found: Findings[str]) -> None:
        if program is None:
            await fallback.list_files(scope, budget, found)
        else:
            await ripgrep.list_files(program, scope, budget, found)

    def convert(scope: Scope, name: str) -> Path:
        return scope.tree.folder.path / name

    return await _search(workspace, where, limit, settings, search=search, convert=convert)


async def find_text(
    workspace: Workspace, query: TextQuery, where: Where, limit: int, settings: SearchSettings
) -> Found[TextMatch]:
    """Find the first `limit` matching lines.

    Raises:
        BadRegex: the query is not a valid regular expression.
        InvalidArguments: the pattern is invalid; at `where.pointer`.
    """

    async def search(program: str | None, scope: Scope, budget: int, found: Findings[Line]) -> None:
        if program is None:
            await fallback.find_lines(scope, query, budget, found)
        else:
            await ripgrep.find_lines(program, scope, query, budget, found)

    def convert(scope: Scope, line: Line) -> TextMatch:
        return TextMatch(scope.tree.folder.path / line.relative, line.number, line.preview, line.occurrences)

    return await _search(workspace, where, limit, settings, search=search, convert=convert)


async def _search(
    workspace: Workspace,
    where: Where,
    limit: int,
    settings: SearchSettings,
    *,
    search: Callable[[str | None, Scope, int, Findings[R]], Awaitable[None]],
    convert: Callable[[Scope, R], T],
) -> Found[T]:
    environ = os.environ if settings.environ is None else settings.environ
    results: list[tuple[Scope, R]] = []
    late = False
    try:
        async with asyncio.timeout(settings.deadline):
            program = await asyncio.to_thread(ripgrep.find_ripgrep, settings.ripgrep, workspace, environ)
            for scope in await asyncio.to_thread(_scopes, workspace, where, environ):
                budget = limit + 1 - len(results)  # one more than the limit shows whether there are more
                found: Findings[R] = Findings()
                try:
                    program = await _search_with_fallback(search, program, scope, budget, found)
                finally:
                    results += [(scope, item) for item in found.items[:budget]]
                if len(results) > limit:
                    break
    except TimeoutError:
        late = True
    shown = await asyncio.to_thread(lambda: tuple(convert(*result) for result in results[:limit]))
    return Found(shown, late or len(results) > limit, late)


async def _search_with_fallback(
    search: Callable[[str | None, Scope, int, Findings[R]], Awaitable[None]],
    program: str | None,
    scope: Scope,
    budget: int,
    found: Findings[R],
) -> str | None:
    """Search with ripgrep, or in Python if ripgrep fails; returns the program to use from now on."""
    try:
        await search(program, scope, budget, found)
    except EngineUnavailable:
        if program is None:
            raise
        found.items.clear()
        await search(None, scope, budget, found)
        return None
    return program


def _scopes(workspace: Workspace, where: Where, environ: Mapping[str, str]) -> Sequence[Scope]:
    filters = query_filters(where.pattern, workspace, where.pointer)
    return [
        Scope(Tree.open(workspace, folder, environ, include_ignored=where.include_ignored), filters[folder])
        for folder in workspace.folders
        if folder in filters
    ]
