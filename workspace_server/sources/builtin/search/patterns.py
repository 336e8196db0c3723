"""Compiles glob patterns of queries, include patterns and exclude settings to path filters.

The syntax is that of editors: `*`, `?`, `[a-z]`, `[!a]`, `{a,b}`, and `**` as a whole path component. Ignore
files have git's syntax (`ignore.py`), which shares `glob_regex`. Pure, except for resolving links in absolute
patterns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workspace_server.tool import InvalidArguments
from workspace_server.workspace import Folder, Workspace

MAX_LENGTH: Final = 1000
"""Characters of one glob: a search may read thousands of them, and each is compiled."""
MAX_ALTERNATIVES: Final = 256
MAX_EXCLUDES: Final = 1000

_WILD: Final = re.compile(r"[*?\[]")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:/")
_TOKEN: Final = re.compile(
    r"(?P<star>\*+)|(?P<one>\?)|\[(?P<class>[!^]?\]?[^\]/]*)\]|\\(?P<escaped>.)|(?P<literal>.)", re.DOTALL
)
_PORTABLE: Final = re.compile(r"\*\*|(?!.*\*\*)[A-Za-z0-9_.@+=~%?*-]+")
_NOTHING: Final = re.compile(r"(?!)")


class BadGlob(ValueError):
    """The glob cannot be understood; the message says why."""


@dataclass(frozen=True, slots=True)
class PathFilter:
    """A test for paths relative to a folder (`/` between the parts).

    `globs` are the plain alternatives behind it, anchored at the folder; empty means that nothing passes.
    """

    regex: re.Pattern[str]
    globs: tuple[str, ...]

    def __call__(self, relative: str) -> bool:
        """Whether the path passes."""
        return self.regex.fullmatch(relative) is not None

    @property
    def everything(self) -> bool:
        """Whether each and every path passes."""
        return "**" in self.globs

    def portable(self) -> tuple[str, ...]:
        """Those of `globs` that mean the same to ripgrep as to us."""
        return tuple(g for g in self.globs if all(_PORTABLE.fullmatch(part) for part in g.split("/")))


def compile_filter(globs: Iterable[str], *, contents: bool = False) -> PathFilter:
    """The filter that lets pass what any of the anchored globs matches.

    `contents`: what lies below a match passes too, each glob also meaning `glob/**`.

    Raises:
        BadGlob: an unclosed brace, a bad range, too many alternatives.
    """
    plain = tuple(dict.fromkeys(single for glob in globs for single in expand_braces(glob)))
    tail = "(?:/.+)?" if contents else ""
    try:
        regex = re.compile("|".join(f"(?:{glob_regex(glob)}){tail}" for glob in plain)) if plain else _NOTHING
    except re.error as error:
        raise BadGlob(str(error.msg)) from None
    return PathFilter(regex, plain)


def query_filters(text: str, workspace: Workspace, pointer: str) -> dict[Folder, PathFilter]:
    """What a pattern of a tool call means in each folder. May block on links.

    `*.ts` matches at any depth, `src/*` from each folder's root, `two/**` in that folder, a folder's name
    is the whole folder, an absolute pattern belongs to its folder, "" is everything. A pattern without
    wildcards in its last part also stands for the directory of that name. Folders where nothing can match
    are left out.

    Raises:
        InvalidArguments: at `pointer`.
    """
    if "|" in text:
        choice = ",".join(part.strip() for part in text.split("|"))
        raise InvalidArguments(pointer, f"'|' separates nothing in a glob; use braces: {{{choice}}}")
    globs: dict[Folder, list[str]] = {folder: [] for folder in workspace.folders}
    try:
        for single in expand_braces(re.sub(r"[\\/]+", "/", text)):
            for folder, anchored in _mapped(single, workspace):
                globs[folder].append(anchored)
        return {folder: compile_filter(found) for folder, found in globs.items() if found}
    except BadGlob as error:
        raise InvalidArguments(pointer, f"not a valid glob: {error}") from None


def exclude_filter(globs: Iterable[str]) -> PathFilter:
    """The filter of exclude settings, each glob also as `glob/**`.

    Globs that make no sense are left out, and what comes after the first `MAX_EXCLUDES`, braces expanded.
    """
    plain: list[str] = []
    for glob in globs:
        anchored = glob.replace("\\", "/").removeprefix("./").strip("/")
        with suppress(BadGlob):
            plain += expand_braces(anchored) if anchored else []
        if len(plain) >= MAX_EXCLUDES:
            break
    del plain[MAX_EXCLUDES:]
    try:
        return compile_filter(plain, contents=True)
    except BadGlob:
        return compile_filter(filter(_makes_sense, plain), contents=True)


def _makes_sense(glob: str) -> bool:
    try:
        compile_filter([glob])
    except BadGlob:
        return False
    return True


def expand_braces(glob: str) -> list[str]:
    """All plain globs that `{a,b}` stands for, in order; nesting allowed.

    Raises:
        BadGlob: unclosed, longer than `MAX_LENGTH`, or more than `MAX_ALTERNATIVES`.
    """
    if len(glob) > MAX_LENGTH:
        raise BadGlob(f"longer than {MAX_LENGTH} characters")
    done: list[str] = []
    waiting = [glob]
    while waiting:
        current = waiting.pop()
        start = current.find("{")
        if start < 0:
            done.append(current)
        else:
            parts, end = _alternatives(current, start)
            waiting.extend(current[:start] + part + current[end:] for part in reversed(parts))
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise BadGlob(f"more than {MAX_ALTERNATIVES} alternatives in braces")
    return done


def _alternatives(glob: str, start: int) -> tuple[list[str], int]:
    """The parts of the brace that opens at `start`, and where the text goes on after it."""
    parts: list[str] = []
    depth, begin = 0, start + 1
    for index in range(start, len(glob)):
        char = glob[index]
        depth += (char == "{") - (char == "}")
        if (char == "," and depth == 1) or depth == 0:
            parts.append(glob[begin:index])
            begin = index + 1
        if depth == 0:
            return parts, begin
    raise BadGlob("'{' without '}'")


def _mapped(glob: str, workspace: Workspace) -> list[tuple[Folder, str]]:
    """Where one plain glob applies, anchored there."""
    glob = glob.removeprefix("./")
    if _ABSOLUTE.match(glob):
        return _mapped_absolute(glob, workspace)
    if ".." in glob.split("/"):
        return []
    head, slash, rest = glob.partition("/")
    named = [folder for folder in workspace.folders if folder.name == head]
    if named and not rest:
        return [(folder, "**") for folder in named]
    if glob in {"", "*", "**", "**/*"}:
        return [(folder, "**") for folder in workspace.folders]
    if not slash or not rest:
        below = [] if slash else _with_contents(f"**/{head}")
        return [(folder, one) for folder in workspace.folders for one in below or [f"{head}/**"]]
    found = [(folder, one) for folder in named for one in _with_contents(rest)]
    return found + [(folder, one) for folder in workspace.folders for one in _with_contents(glob)]


def _mapped_absolute(glob: str, workspace: Workspace) -> list[tuple[Folder, str]]:
    if not Path(glob).is_absolute():  # a drive letter where there are no drives
        return []
    parts = glob.split("/")
    fixed = next((i for i, part in enumerate(parts) if _WILD.search(part)), len(parts))
    prefix = "/".join(parts[:fixed])
    rest = parts[fixed:]
    for literal in (Path(prefix or "/"), Path(os.path.realpath(prefix or "/"))):
        for folder in workspace.folders:
            if ".." not in literal.parts and literal.is_relative_to(folder.path):
                inner = "/".join([*literal.relative_to(folder.path).parts, *rest])
                return [(folder, one) for one in (_with_contents(inner) if inner else ["**"])]
    return []


def _with_contents(glob: str) -> list[str]:
    """The glob, and what lies below where its last part is a plain name: `src/lib` may be a directory."""
    if glob.endswith("/"):
        return [f"{glob}**"]
    plain = not _WILD.search(glob.rsplit("/", 1)[-1])
    return [glob, f"{glob}/**"] if plain else [glob]


def glob_regex(glob: str, *, strict: bool = False) -> str:
    """One plain, anchored glob as a regular expression for `fullmatch`; `\\` takes a character literally.

    `strict` refuses a bracket that is never closed, which otherwise stands for itself. Every wildcard but the
    last of its kind is atomic: the leftmost fit is always as good as any other, and a hostile pattern
    cannot make the match backtrack exponentially.

    Raises:
        BadGlob: see `strict`.
    """
    groups: list[list[str]] = [[]]
    for part in glob.split("/"):
        if part == "**":
            groups.append([])
        elif part not in {"", "."}:
            groups[-1].append(_segment(part, strict=strict))
    first, *later = groups
    if not later:
        return "/".join(first)
    regex = "".join(f"{part}/" for part in first)
    *middle, last = [part for part in later[:-1] if part] + [later[-1]]
    regex += "".join(f"(?>(?:[^/]+/)*?{'/'.join(part)}/)" for part in middle)
    return regex + (f"(?:[^/]+/)*{'/'.join(last)}" if last else ".+")


def _segment(part: str, *, strict: bool) -> str:
    """One path component as a regular expression."""
    runs: list[str] = [""]
    for token in _TOKEN.finditer(part):
        if token["star"]:
            runs.append("")
        elif token["one"]:
            runs[-1] += "[^/]"
        elif token["class"] is not None and token["class"] not in {"", "!", "^"}:
            runs[-1] += _character_class(token["class"])
        elif strict and token["literal"] == "[":
            raise BadGlob("'[' without ']'")
        else:
            runs[-1] += re.escape(token["escaped"] or token.group())
    if len(runs) == 1:
        return runs[0]
    atoms = "".join(f"(?>[^/]*?{run})" for run in runs[1:-1] if run)
    at_least_one = "(?=[^/])" if not "".join(runs) else ""
    return f"{runs[0]}{atoms}{at_least_one}[^/]*{runs[-1]}"


def _character_class(body: str) -> str:
    negated = body[0] in "!^"
    escaped = re.sub(r"[\\\[\]&~|^]", r"\\\g<0>", body[negated:]).replace("--", "-\\-")
    return f"(?!/)[{'^' if negated else ''}{escaped}]" if escaped else re.escape(f"[{body}]")
