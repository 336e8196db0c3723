"""Makes TypeScript's servers know all files with a symbol's name, whichever project they belong to.

Such a server knows the projects of the files that are open in it. So uses are missing in other projects
(those that `references` of a tsconfig.json name, packages of a monorepo), and in files that no project
includes, such as tests that the build leaves out; and which ones depends on what was asked before. Therefore
one file of each project with the name is opened, and each file with it that belongs to none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.server import LanguageServer, RequestFailed, RequestTimedOut
from lm_tools_bridge.code_intelligence.tools.project_files import where, without_libraries
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.code_intelligence.wire.document_uris import to_uri
from lm_tools_bridge.machine import regular_file
from workspace_server.sources.builtin.search.engine import find_text
from workspace_server.sources.builtin.search.query import EngineUnavailable, TextMatch, TextQuery

MAX_GIVEN: Final = 150
"""So many files are opened: fewer than may be open at a time."""
MAX_GUESSED: Final = 40
"""Files that clangd is given beside those it has read: it parses each with all of its headers."""
_PARSED_AT_ONCE: Final = 4
"""clangd parses as many files at a time as there are processors, few of which are free."""
_MAX_SHOWN: Final = 3
"""Files that a sentence names."""
MAX_FILES: Final = 2_000
"""Files that the server is asked about: each question takes it a fraction of a millisecond."""
ROUND: Final = 32
"""Such questions at a time: more would only wait for each other in the server."""
MAX_ALIASES: Final = 10
"""Other names under which a symbol is imported or exported; real ones have one or two."""
_MAX_LINES: Final = 20_000
"""Lines with the name: enough to name more files than the server is asked about."""
_PROJECT_OF: Final = "custom/projectInfo"
"""TypeScript 7 tells the configuration file of a file's project, empty if it has none; others refuse."""
_QUOTE: Final = r"['\x22]"
"""ripgrep refuses an escaped quote."""
_ALIAS: Final = re.compile(r"\bas[ \t]+([\w$]+)")


async def give_guessed_files(workplace: Workplace, server: LanguageServer, name: str, seconds: float) -> str:
    """Let a server of C read the files with a name of which nothing says how they are compiled.

    Args:
        workplace: where the files are.
        server: whom to give them to.
        name: the symbol's.
        seconds: how long it may read them.

    Returns:
        What may be missing, in a sentence; empty if there are no such files.
    """
    try:
        matches, _ = await _lines(workplace, server, _word_pattern(name))
    except EngineUnavailable:
        return ""
    paths = dict.fromkeys(match.path for match in matches)
    own = await asyncio.to_thread(without_libraries, workplace.workspace, paths)
    guessed = server.guessed_files(own)
    if not guessed:
        return ""
    unread, loop = list(guessed), asyncio.get_running_loop()
    until = loop.time() + seconds
    while unread and len(guessed) - len(unread) < MAX_GUESSED and (rest_s := until - loop.time()) > 0:
        await asyncio.gather(*(_read_file(server, path, rest_s) for path in unread[:_PARSED_AT_ONCE]))
        unread = unread[_PARSED_AT_ONCE:]
    first_files = ", ".join(workplace.shown_path(path) for path in guessed[:_MAX_SHOWN])
    more = f" and {len(guessed) - _MAX_SHOWN} more" if len(guessed) > _MAX_SHOWN else ""
    rest = f"; {len(unread)} of them were not read" if unread else ""
    return (
        f"compile_commands.json lacks files with the name: {first_files}{more}; it guesses how they are "
        f"compiled{rest}. `bear -- make all check`, or CMake with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, "
        "adds them"
    )


async def _read_file(server: LanguageServer, path: Path, seconds: float) -> None:
    """Open a file, and wait until the server has parsed it: only then it knows the uses there."""
    with suppress(OSError, RequestFailed, RequestTimedOut):
        await server.open(path)
        params = {"textDocument": {"uri": to_uri(path)}}
        await server.request("textDocument/documentSymbol", params, timeout_s=seconds)


def _word_pattern(word: str) -> str:
    return rf"\b{re.escape(word)}\b" if word.isidentifier() else re.escape(word)


async def give_files_with(workplace: Workplace, server: LanguageServer, name: str, declared_in: Path) -> str:
    """Open what the server needs to know all uses of a name.

    Args:
        workplace: where the files are.
        server: whom to give them to.
        name: the symbol's.
        declared_in: its file, which importers of a default export name.

    Returns:
        What may be missing nevertheless, in a sentence; empty if nothing.
    """
    try:
        words = [name, *await _aliases(workplace, server, name)]
        patterns = [_word_pattern(word) for word in words]
        patterns += _import_pattern(await asyncio.to_thread(_default_export, declared_in, words), declared_in)
        matches, is_capped = await _lines(workplace, server, "|".join(patterns))
    except EngineUnavailable:
        return ""
    paths = dict.fromkeys(match.path for match in matches)
    own = await asyncio.to_thread(without_libraries, workplace.workspace, paths)
    projects = await _projects(server, own[:MAX_FILES])
    files_wanted = files_to_open(own[:MAX_FILES], projects)
    for path in files_wanted[:MAX_GIVEN]:
        with suppress(OSError):
            await server.open(path)
    rest = len(files_wanted) + len(own[MAX_FILES:]) - len(files_wanted[:MAX_GIVEN])
    if rest or is_capped:
        number = f"{rest} more files with the name" if rest else "some files with the name"
        return f"{number} belong to no project that it has read, and were not given to it"
    return ""


def files_to_open(files: Sequence[Path], projects: Mapping[Path, str]) -> list[Path]:
    """The first file of each project, then all that belong to none, those of different folders first. Pure.

    Args:
        files: with the name, in order.
        projects: the configuration file of a file's project, where it is known; empty if it has none.
    """
    first: dict[str, Path] = {}
    loose: dict[Path, list[Path]] = {}
    for path in files:
        if project := projects.get(path, ""):
            first.setdefault(project, path)
        else:
            loose.setdefault(path.parent, []).append(path)
    numbered = [(number, path) for paths in loose.values() for number, path in enumerate(paths)]
    numbered.sort(key=lambda each: each[0])  # stable: folders stay in their order
    return [*first.values(), *(path for _, path in numbered)]


async def _aliases(workplace: Workplace, server: LanguageServer, name: str) -> list[str]:
    """The names that imports and exports give to this name."""
    pattern = rf"{re.escape(name)}[ \t]+as[ \t]+[\w$]+"
    matches, _ = await _lines(workplace, server, pattern)
    return aliases_in(match.preview for match in matches)[:MAX_ALIASES]


def aliases_in(lines: Iterable[str]) -> list[str]:
    """The names behind `as` in lines of imports and exports, each once. Pure."""
    names = [alias for line in lines for alias in _ALIAS.findall(line)]
    # `const` follows `as` in expressions, and `default` is no name that files import by
    return [each for each in dict.fromkeys(names) if each not in {"const", "default", "any", "unknown"}]


def _default_export(path: Path, words: Sequence[str]) -> bool:
    """Whether a file exports one of these names as its default: importers may call it anything. Blocks."""
    try:
        text = regular_file.read_bytes(path, regular_file.MAX_SOURCE).decode("utf-8", "replace")
    except OSError:
        return False
    names = "|".join(map(re.escape, words))
    keywords = r"(?:async\s+|abstract\s+)?(?:function\b\s*\*?|class\b|const\b|enum\b|interface\b|type\b)?"
    pattern = rf"\bexport\s+default\s+{keywords}\s*(?:{names})\b|(?:{names})\s+as\s+default\b"
    return re.search(rf"{pattern}|\bmodule\.exports\s*=[^;\n]*\b(?:{names})\b", text) is not None


def _import_pattern(is_default: bool, path: Path) -> list[str]:
    """What finds the imports of a file: its name without a suffix, or that of its folder, in quotes."""
    if not is_default:
        return []
    stem = path.name.partition(".")[0]
    names = {stem, path.parent.name} if stem == "index" else {stem}
    return [rf"{_QUOTE}[^'\x22]*\b{re.escape(each)}(?:\.\w+)?{_QUOTE}" for each in sorted(names)]


async def _lines(
    workplace: Workplace, server: LanguageServer, pattern: str
) -> tuple[Sequence[TextMatch], bool]:
    """The lines of the server's languages that match, and whether there are more."""
    query = TextQuery(pattern, regex=True, case_sensitive=True)
    matches = await find_text(
        workplace.workspace,
        query,
        where(server.specification),
        _MAX_LINES,
        workplace.searches.settings(),
    )
    return matches.items, matches.capped


async def _projects(server: LanguageServer, files: Sequence[Path]) -> Mapping[Path, str]:
    """The configuration file of each file's project; nothing where the server does not tell."""
    projects: dict[Path, str] = {}

    async def look(path: Path) -> None:
        answer = await server.request(_PROJECT_OF, {"textDocument": {"uri": to_uri(path)}})
        project = answer.get("configFilePath") if isinstance(answer, Mapping) else None
        if isinstance(project, str):
            projects[path] = project

    with suppress(RequestFailed, RequestTimedOut):
        for start in range(0, len(files), ROUND):
            results = await asyncio.gather(
                *(look(path) for path in files[start : start + ROUND]), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
    return projects
