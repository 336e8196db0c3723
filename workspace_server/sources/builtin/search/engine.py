"""Searches a workspace folder by folder: lists files, and finds text in them with ripgrep or in Python.

Results are in order: folders in their order, files in walk order (`files/listing.py`), lines by number. A
limit keeps the first N of that order.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Final, Generic, TypeVar

from lm_tools_bridge.machine.git_worktrees import copies_in, is_copy
from workspace_server.garbage_pause import garbage_pause
from workspace_server.sources.builtin.files.ignore import Tree
from workspace_server.sources.builtin.files.listing import MAX_KEPT_FILES, Listings
from workspace_server.sources.builtin.files.patterns import (
    PathFilter,
    compile_filter,
    fixed_parts,
    query_filters,
)
from workspace_server.sources.builtin.files.segments import SegmentFilter
from workspace_server.sources.builtin.search import fallback, ripgrep
from workspace_server.sources.builtin.search.batches import Batch, Batches
from workspace_server.sources.builtin.search.query import (
    MAX_COUNTED_LINES,
    EngineUnavailable,
    Findings,
    Line,
    Scope,
    SearchSettings,
    TextMatch,
    TextQuery,
)
from workspace_server.workspace import Folder, Workspace

IGNORED_S: Final = 0.5
"""Longest look for ignored files, in seconds, to explain that nothing was found."""

MAX_COPIES: Final = 10
"""Git worktrees that are looked at for the same reason."""

R = TypeVar("R")
T = TypeVar("T")
Search = Callable[[Scope, int, Findings[R]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """The first results in order.

    Attributes:
        items: the results.
        total: how many results there are; if not `exact`, at least.
        exact: whether `total` is certain.
        late: whether the deadline passed.
    """

    items: tuple[T, ...]
    total: int
    exact: bool
    late: bool

    @property
    def capped(self) -> bool:
        """Whether there are or may be more results."""
        return not self.exact or self.total > len(self.items)


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

    async def search(scope: Scope, limit: int, found: Findings[str]) -> None:
        stop = threading.Event()
        try:
            await asyncio.to_thread(garbage_pause()(_list_files), scope, limit, found, stop)
        finally:
            stop.set()

    def convert(scope: Scope, name: str) -> Path:
        return scope.tree.folder.path / name

    return await _search(workspace, where, limit, settings, search=search, convert=convert)


def _list_files(scope: Scope, limit: int, found: Findings[str], stop: threading.Event) -> None:
    count = 0
    for segment in scope.listing.segments(scope.tree, stop.is_set):
        room = limit - len(found.items)
        if room > 0:
            if names := scope.wanted(segment):
                found.items += [segment.base + name for name in names[:room]]
                found.total += len(names)
        else:
            found.total += scope.wanted.count(segment)
        count += segment.count
        if room <= 0 and count > MAX_KEPT_FILES:  # to count the rest would be slow each time
            found.exact = False
            return


async def ignored_files_match(workspace: Workspace, where: Where, settings: SearchSettings) -> bool:
    """Whether the pattern matches an ignored or excluded file; False if that takes too long to tell.

    For use right after a search that found no file.
    """
    environ = os.environ if settings.environ is None else settings.environ
    wider = replace(where, include_ignored=True)
    stop = threading.Event()

    def is_there() -> bool:
        listings = [settings.listings.of(folder.path, include_ignored=False) for folder in workspace.folders]
        if not any(listing.hides for listing in listings):
            return False
        scopes = _scopes(workspace, wider, settings.listings, environ)
        return any(next(scope.files(stop.is_set), None) for scope in scopes)

    try:
        async with asyncio.timeout(IGNORED_S):
            return await asyncio.to_thread(is_there)
    except TimeoutError:
        return False
    finally:
        stop.set()


async def copies_that_match(workspace: Workspace, where: Where, settings: SearchSettings) -> tuple[Path, ...]:
    """The git worktrees inside the project in which the pattern matches a file, the first few of them.

    Searches leave them out. Those that take too long to tell are left out here, too.
    """
    paths: list[Path] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(IGNORED_S):
            for folder in workspace.folders:
                copies = await asyncio.to_thread(
                    lambda root: list(islice(copies_in(root), MAX_COPIES)), folder.path
                )
                for copy in copies:
                    inside = Workspace(copy, (Folder(folder.name, copy),))
                    if (await find_files(inside, where, 1, settings)).items:
                        paths.append(copy)
    return tuple(paths)


async def find_text(
    workspace: Workspace, query: TextQuery, where: Where, limit: int, settings: SearchSettings
) -> Found[TextMatch]:
    """Find the first `limit` matching lines.

    Raises:
        BadRegex: the query is not a valid regular expression.
        InvalidArguments: the pattern is invalid; at `where.pointer`.
    """
    environ = os.environ if settings.environ is None else settings.environ
    program: str | None = None
    is_looked_for = False

    async def search(scope: Scope, limit: int, found: Findings[Line]) -> None:
        nonlocal program, is_looked_for
        if not is_looked_for:
            program = await asyncio.to_thread(ripgrep.find_ripgrep, settings.ripgrep, workspace, environ)
            is_looked_for = True
        batches = Batches(scope)
        try:
            batch = await batches.next()
            # at least once, to check the pattern even if there are no files
            program = await _match(program, scope, query, batch, limit=limit, found=found)
            if program and batch and found.exact:
                program, is_done = await _match_tree(program, scope, query, batches, limit=limit, found=found)
                if is_done:
                    return
            while batch and (batch := await batches.next()):
                if found.total >= limit + MAX_COUNTED_LINES or not found.exact:
                    found.exact = False
                    return
                program = await _match(program, scope, query, batch, limit=limit, found=found)
        finally:
            batches.close()

    # a folder may have become a link since it was listed, and the programs that match follow paths
    is_shown = cache(workspace.gate().admits)

    def convert(scope: Scope, line: Line) -> TextMatch:
        path = scope.tree.folder.path / line.relative
        return TextMatch(path, line.number, line.preview if is_shown(path) else "", line.occurrences)

    return await _search(workspace, where, limit, settings, search=search, convert=convert)


async def _match(
    program: str | None,
    scope: Scope,
    query: TextQuery,
    batch: Batch,
    *,
    limit: int,
    found: Findings[Line],
) -> str | None:
    """Search files with ripgrep, or in Python if ripgrep fails; returns the program to use from now on."""
    folder = scope.tree.folder.path
    if program is not None:
        earlier_count = len(found.items)
        try:
            await ripgrep.find_lines(program, folder, query, batch, limit=limit, found=found)
            return program
        except EngineUnavailable:
            del found.items[earlier_count:]
    await fallback.find_lines(folder, query, batch, limit=limit, found=found)
    return None


async def _match_tree(
    program: str, scope: Scope, query: TextQuery, batches: Batches, *, limit: int, found: Findings[Line]
) -> tuple[str | None, bool]:
    """Search all files at once, if that pays.

    Returns the program to use from now on, and whether all files were searched.
    """
    tree = await batches.whole_tree()
    if tree is None or not tree.is_worth_a_walk or not ripgrep.CAN_WALK:
        return program, False
    earlier_count, folder = len(found.items), scope.tree.folder.path
    try:
        return program, await ripgrep.find_lines_of_tree(
            program, folder, query, tree, limit=limit, found=found
        )
    except EngineUnavailable:
        del found.items[earlier_count:]
        return None, False


async def _search(
    workspace: Workspace,
    where: Where,
    limit: int,
    settings: SearchSettings,
    *,
    search: Search[R],
    convert: Callable[[Scope, R], T],
) -> Found[T]:
    environ = os.environ if settings.environ is None else settings.environ
    results: list[tuple[Scope, R]] = []
    total, exact, late = 0, True, False
    try:
        async with asyncio.timeout(settings.deadline):
            for scope in await asyncio.to_thread(_scopes, workspace, where, settings.listings, environ):
                findings: Findings[R] = Findings()
                budget = limit - len(results)
                try:
                    await search(scope, budget, findings)
                finally:
                    results += [(scope, item) for item in findings.items[:budget]]
                    total += max(findings.total, len(findings.items))
                    exact = exact and findings.exact
                if not exact:
                    break
    except TimeoutError:
        exact, late = False, True
    converted = await asyncio.to_thread(lambda: tuple(convert(*result) for result in results))
    return Found(converted, max(total, len(converted)), exact, late)


def _scopes(
    workspace: Workspace, where: Where, listings: Listings, environ: Mapping[str, str]
) -> Sequence[Scope]:
    filters = query_filters(where.pattern, workspace, where.pointer)
    ignored = where.include_ignored
    return [
        Scope(
            Tree.open(workspace, place, environ, include_ignored=ignored),
            listings.of(place.path, include_ignored=ignored),
            SegmentFilter(path_filter),
        )
        for folder in workspace.folders
        if folder in filters
        for place, path_filter in by_worktree(folder, filters[folder])
    ]


def by_worktree(folder: Folder, wanted: PathFilter) -> Iterator[tuple[Folder, PathFilter]]:
    """The trees to search for a filter, each with its own filter: the folder, and worktrees that it names.

    Blocks.
    """
    names_by_folder: dict[Path, list[str]] = {}
    for glob in wanted.globs:
        root, rest = _innermost(folder.path, glob)
        if rest:  # the root itself is no file
            names_by_folder.setdefault(root, []).append(rest)
    for root, globs in names_by_folder.items():
        if root == folder.path:
            yield folder, wanted if len(globs) == len(wanted.globs) else compile_filter(globs)
        else:
            yield Folder(root.name, root), compile_filter(globs)


def _innermost(folder: Path, glob: str) -> tuple[Path, str]:
    """The innermost worktree that the fixed part of a glob leads into, and the rest of the glob in it.

    The folder itself and the whole glob if there is none.
    """
    parts, fixed = glob.split("/"), fixed_parts(glob)
    for count in range(len(fixed), 0, -1):
        place = folder.joinpath(*fixed[:count])
        is_candidate = os.path.isfile(place / ".git")  # noqa: PTH113  the path's method fails for long names
        if is_candidate and is_copy(place):
            return Path(os.path.realpath(place)), "/".join(parts[count:])
    return folder, glob
