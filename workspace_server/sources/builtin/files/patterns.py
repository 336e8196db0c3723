"""Compiles glob patterns of queries, include patterns and exclude settings to path filters.

The syntax is that of editors: `*`, `?`, `[a-z]`, `[!a]`, `{a,b}`, and `**` as a whole path component. A
pattern also matches the path that it spells: frameworks name folders `[id]`, `(group)` or `{x,y}`. Ignore
files have git's syntax (`ignore.py`), which shares `glob_regex`. Pure, except for links and names in queries.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from workspace_server.tool import InvalidArguments
from workspace_server.workspace import Folder, Workspace

MAX_LENGTH: Final = 1000
"""Longest glob in characters; a search may compile thousands of globs."""
# Braces multiply: a short glob could expand to millions of alternatives.
MAX_ALTERNATIVES: Final = 256
MAX_EXCLUDES: Final = 1000

_WILD: Final = re.compile(r"[*?\[]")
_ABSOLUTE: Final = re.compile(r"/|[A-Za-z]:/")
_TOKEN: Final = re.compile(
    r"(?P<star>\*+)|(?P<one>\?)|\[(?P<class>[!^]?\]?[^\]/]*)\]|\\(?P<escaped>.)|(?P<literal>.)", re.DOTALL
)
_NOTHING: Final = re.compile(r"(?!)")
_SEPARATORS: Final = re.compile(r"[\\/]+")
_ESCAPE: Final = re.compile(r"\\([*?\[\]{}(),!+@])")
"""A backslash before one of these may mean the character itself; before others it can only separate."""
_SPECIAL: Final = re.compile(r"[*?\[\]{}]")
_OPENING: Final = re.compile(r"\\.|\{", re.DOTALL)
_UNESCAPED: Final = "\0"
"""Stands for the backslash of an escape while the others become separators; no path contains it."""


class BadGlob(ValueError):
    """The glob is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class PathFilter:
    """A test for paths relative to a folder, with `/` as separator.

    `globs` are the globs it was compiled from, without braces and anchored at the folder. Without globs
    no path passes.
    """

    regex: re.Pattern[str]
    globs: tuple[str, ...]

    def __call__(self, relative: str) -> bool:
        """Whether the path passes."""
        return self.regex.fullmatch(relative) is not None


def compile_filter(globs: Iterable[str], *, contents: bool = False) -> PathFilter:
    """Compile anchored globs to a filter. A path passes if at least one glob matches it.

    With `contents` each glob also matches everything below, as `glob/**` does.

    Raises:
        BadGlob: a brace is not closed, a range is invalid, or there are too many alternatives.
    """
    plain = tuple(dict.fromkeys(single for glob in globs for single in expand_braces(glob)))
    tail = "(?s:/.+)?" if contents else ""
    try:
        regex = re.compile("|".join(f"(?:{glob_regex(glob)}){tail}" for glob in plain)) if plain else _NOTHING
    except re.error as error:
        raise BadGlob(str(error.msg)) from None
    return PathFilter(regex, plain)


def query_filters(text: str, workspace: Workspace, pointer: str) -> dict[Folder, PathFilter]:
    """Compile the pattern of a tool call to a filter for each folder. Resolves links, so it may block.

    `*.ts` matches at any depth, `src/*` from each folder's root, `two/**` in that folder, a folder's name
    is the whole folder, an absolute pattern belongs to its folder, "" is everything. A pattern without
    wildcards in its last part also stands for the directory of that name. Folders where nothing can match
    are left out.

    Raises:
        InvalidArguments: at `pointer`: the pattern is invalid, or leads into another project.
    """
    if "|" in text:
        choice = ",".join(part.strip() for part in text.split("|"))
        raise InvalidArguments(pointer, f"'|' has no meaning in a glob; use braces: {{{choice}}}")
    globs: dict[Folder, list[str]] = {folder: [] for folder in workspace.folders}
    try:
        for reading, folders in _readings(text, workspace):
            for single in expand_braces(reading):
                for folder, anchored in _per_folder(single, workspace):
                    if folder in folders:
                        globs[folder].append(anchored)
        filters = {folder: compile_filter(patterns) for folder, patterns in globs.items() if patterns}
    except BadGlob as error:
        raise InvalidArguments(pointer, f"not a valid glob: {error}") from None
    if not filters:
        _refuse_other_project(_SEPARATORS.sub("/", text), workspace, pointer)
    return filters


def escaped(text: str) -> str:
    """A query with `/` as separator; a backslash stays where it makes the next character a plain one."""
    kept = _ESCAPE.sub(rf"{_UNESCAPED}\1", text.replace(_UNESCAPED, ""))
    return _SEPARATORS.sub("/", kept).replace(_UNESCAPED, "\\")


def _readings(text: str, workspace: Workspace) -> list[tuple[str, Sequence[Folder]]]:
    """What a query can mean, and in which folders. Blocks.

    A backslash separates as on Windows, or makes the next character a plain one; braces are alternatives, or
    a part of the name of a folder that is there. What one reading matches beside the meant one hardly exists.
    """
    usual = dict.fromkeys([_SEPARATORS.sub("/", text), escaped(text)])
    spelled = [
        (_spelled(reading, folder), [folder])
        for reading in usual
        if _SPECIAL.search(reading)
        for folder in workspace.folders
    ]
    return [
        *((reading, workspace.folders) for reading in usual),
        *(spelling for spelling in spelled if spelling[0] not in usual),
    ]


def _spelled(glob: str, folder: Folder) -> str:
    """The glob with only plain characters in the components at its beginning that spell an existing path."""
    inside = glob.removeprefix(f"{folder.path.as_posix()}/").removeprefix("./")
    parts = inside.removeprefix(f"{folder.name}/").split("/")
    count = existing_parts(folder.path, parts)
    if inside == glob and not _SPECIAL.search("".join(parts[:count])):
        return glob
    return "/".join([*(_SPECIAL.sub(r"\\\g<0>", part) for part in parts[:count]), *parts[count:]])


def existing_parts(folder: Path, parts: Sequence[str]) -> int:
    """How many components at the beginning of a glob spell a path that exists below a folder. Blocks."""
    count = 0
    while count < len(parts) and parts[count] not in {"", ".", ".."}:
        if not os.path.lexists(folder.joinpath(*parts[: count + 1])):
            break
        count += 1
    return count


def _refuse_other_project(glob: str, workspace: Workspace, pointer: str) -> None:
    """Say where to search for a pattern that leads into another project, in place of finding nothing here."""
    prefix = "/".join(fixed_parts(glob.partition("{")[0]))
    if Path(prefix).is_absolute():
        refusal = workspace.refusal_outside(Path(os.path.realpath(prefix)))
        if refusal.project is not None:
            raise InvalidArguments(pointer, refusal.message)


def exclude_filter(globs: Iterable[str]) -> PathFilter:
    """Compile exclude settings to a filter; each glob also matches everything below.

    Invalid globs are left out, and so are those after the first `MAX_EXCLUDES`, counted without braces.
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
        return compile_filter(filter(_is_valid, plain), contents=True)


def _is_valid(glob: str) -> bool:
    try:
        compile_filter([glob])
    except BadGlob:
        return False
    return True


def expand_braces(glob: str) -> list[str]:
    """Replace `{a,b}` by all alternatives, in order. Braces may be nested.

    Raises:
        BadGlob: a brace is not closed, or a limit (`MAX_LENGTH`, `MAX_ALTERNATIVES`) is exceeded.
    """
    if len(glob) > MAX_LENGTH:
        raise BadGlob(f"longer than {MAX_LENGTH} characters")
    done: list[str] = []
    waiting = [glob]
    while waiting:
        current = waiting.pop()
        start = _opening(current)
        if start is None:
            done.append(current)
        else:
            parts, end = _alternatives(current, start)
            waiting.extend(current[:start] + part + current[end:] for part in reversed(parts))
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise BadGlob(f"more than {MAX_ALTERNATIVES} alternatives in braces")
    return done


def _opening(glob: str) -> int | None:
    """Where the first brace opens that no backslash makes plain."""
    return next((match.start() for match in _OPENING.finditer(glob) if match[0] == "{"), None)


def _alternatives(glob: str, start: int) -> tuple[list[str], int]:
    """The alternatives of the brace that opens at `start`, and the index after the brace."""
    parts: list[str] = []
    depth, begin = 0, start + 1
    for index in range(start, len(glob)):
        char = glob[index] if glob[index - 1 : index] != "\\" else ""
        depth += (char == "{") - (char == "}")
        if (char == "," and depth == 1) or depth == 0:
            parts.append(glob[begin:index])
            begin = index + 1
        if depth == 0:
            return parts, begin
    raise BadGlob("'{' without '}'")


def _per_folder(glob: str, workspace: Workspace) -> list[tuple[Folder, str]]:
    """The folders where one glob without braces applies, each with the glob anchored there."""
    glob = glob.removeprefix("./")
    if _ABSOLUTE.match(glob):
        return _absolute_per_folder(glob, workspace)
    if ".." in glob.split("/"):
        return []
    head, slash, rest = glob.partition("/")
    named_folders = [folder for folder in workspace.folders if folder.name == head]
    if named_folders and not rest:
        return [(folder, "**") for folder in named_folders]
    if glob in {"", "*", "**", "**/*"}:
        return [(folder, "**") for folder in workspace.folders]
    if not slash or not rest:
        below = [] if slash else _with_contents(f"**/{head}")
        return [(folder, pattern) for folder in workspace.folders for pattern in below or [f"{head}/**"]]
    pairs = [(folder, pattern) for folder in named_folders for pattern in _with_contents(rest)]
    return pairs + [(folder, pattern) for folder in workspace.folders for pattern in _with_contents(glob)]


def _absolute_per_folder(glob: str, workspace: Workspace) -> list[tuple[Folder, str]]:
    if not Path(glob).is_absolute():  # a drive letter on a system without drives
        return []
    for folder in workspace.folders:
        base = folder.path.as_posix().rstrip("/")
        if f"{glob}/".startswith(f"{base}/"):  # whatever characters are in its name
            inner = glob[len(base) + 1 :]
            if ".." not in inner.split("/"):
                return [(folder, pattern) for pattern in (_with_contents(inner) if inner else ["**"])]
    parts, fixed = glob.split("/"), fixed_parts(glob)
    prefix = "/".join(fixed)
    rest = parts[len(fixed) :]
    for literal in (Path(prefix or "/"), Path(os.path.realpath(prefix or "/"))):
        for folder in workspace.folders:
            if ".." not in literal.parts and literal.is_relative_to(folder.path):
                inner = "/".join([*literal.relative_to(folder.path).parts, *rest])
                return [(folder, pattern) for pattern in (_with_contents(inner) if inner else ["**"])]
    return []


def fixed_parts(glob: str) -> list[str]:
    """The components of a glob before the first one with a wildcard."""
    parts = glob.split("/")
    return parts[: next((at for at, part in enumerate(parts) if _WILD.search(part)), len(parts))]


def _with_contents(glob: str) -> list[str]:
    """The glob, and `glob/**` if its last part has no wildcard: `src/lib` may be a directory."""
    if glob.endswith("/"):
        return [f"{glob}**"]
    # not for brackets: `app/[id]` may be a directory, too
    plain = not re.search(r"[*?]", _ESCAPE.sub("", glob.rsplit("/", 1)[-1]))
    return [glob, f"{glob}/**"] if plain else [glob]


def glob_regex(glob: str, *, strict: bool = False) -> str:
    """Convert an anchored glob without braces to a regular expression for `fullmatch`; `\\` escapes.

    With `strict`, as in ignore files, an unclosed bracket is an error; otherwise it is a literal character,
    and `[id]` matches itself as well as `i` and `d`. Every wildcard except the last one of its kind is
    atomic: the leftmost match is as good as any other, and so no pattern can make the match backtrack
    exponentially.

    Raises:
        BadGlob: `strict`, and a bracket is not closed.
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
    return regex + (f"(?:[^/]+/)*{'/'.join(last)}" if last else "(?s:.+)")


def _segment(part: str, *, strict: bool) -> str:
    """Convert one path component to a regular expression."""
    runs: list[str] = [""]
    for token in _TOKEN.finditer(part):
        if token["star"]:
            runs.append("")
        elif token["one"]:
            runs[-1] += "[^/]"
        elif token["class"] is not None and token["class"] not in {"", "!", "^"}:
            runs[-1] += _character_class(token["class"], strict=strict)
        elif strict and token["literal"] == "[":
            raise BadGlob("'[' without ']'")
        else:
            runs[-1] += re.escape(token["escaped"] or token.group())
    if len(runs) == 1:
        return runs[0]
    atoms = "".join(f"(?>[^/]*?{run})" for run in runs[1:-1] if run)
    at_least_one = "(?=[^/])" if not "".join(runs) else ""
    return f"{runs[0]}{atoms}{at_least_one}[^/]*{runs[-1]}"


def _character_class(body: str, *, strict: bool) -> str:
    negated = body[0] in "!^"
    inner = re.sub(r"[\\\[\]&~|^]", r"\\\g<0>", body[negated:]).replace("--", "-\\-")
    spelled = re.escape(f"[{body}]")
    if not inner:
        return spelled
    pattern = f"(?!/)[{'^' if negated else ''}{inner}]"
    if strict:
        return pattern
    return (
        f"(?:{pattern}|{spelled})" if _is_regex(pattern) else spelled
    )  # `[user-id]` is no range, but a name


def _is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
