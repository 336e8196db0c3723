"""Describes a kind of language server: what it is for, how it is started, which signs it gives. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from lm_tools_bridge.code_intelligence.checked_files import CheckedFiles

Role = Literal["symbols", "diagnostics"]
ReadySignal = Literal[
    "first-answer",  # requests wait until the server has read the project
    "progress",  # the end of a `$/progress` whose title begins with `ready_title`
    "background-index",  # the end of clangd's `backgroundIndexProgress`
    "quiescent",  # rust-analyzer's `experimental/serverStatus`
    "log-message",  # a `window/logMessage` that begins with `ready_title`
    "settled",  # no sign: two equal answers in a row
]
ChangeNotice = Literal[
    "watched-files",  # `workspace/didChangeWatchedFiles` with the URIs of the files
    "open-documents",  # only open documents are seen to change: clangd
]
CheckFormat = Literal["mypy", "tsc", "eslint", "cargo", "go-vet"]
"""How a checker prints what it found."""


@dataclass(frozen=True, slots=True)
class Check:
    """That a kind is no server, but a program that checks the whole project once and ends.

    Attributes:
        format: how it prints.
        if_no_target: further arguments for a second run, if the first one says `no_target` on standard error.
        no_target: what it says if its configuration does not name what to check.
        stops_at_errors: whether it leaves unchecked what depends on something wrong.
    """

    format: CheckFormat
    if_no_target: tuple[str, ...] = ()
    no_target: str = ""
    stops_at_errors: bool = False


INSTALL_VERB: Final = "lmtb languages install"
"""What hints name: it shows what it would install, from where, and asks."""
Registry = Literal["PyPI", "npm", "Go", "rustup"]


@dataclass(frozen=True, slots=True)
class Package:
    """What `lmtb languages install` gets a server from.

    Attributes:
        registry: where from.
        names: of packages as the registry's own program takes them, the server's first.
    """

    registry: Registry
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerSpecification:
    """One kind of language server, or of checker.

    Attributes:
        name: unique, as results and `lmtb languages` show it, e.g. `clangd`.
        languages: the `languageId` by file suffix (`.cpp`) or whole file name (`Dockerfile`).
        commands: command lines to try in order; the first word is a program's name or an absolute path.
        roles: what it is asked for.
        markers: project files that it reads, besides files of its languages.
        project_files: files that say what belongs to the project, by name.
        without_project_files: what its answers lack if there is none of them, in a sentence.
        joins_open_files: whether it takes open files for parts of the project if there is none of them.
        uses_by_definition: whether a word that leads to a symbol's definition counts as a use, though it is
            left out: servers of TypeScript know few uses of what CommonJS exports.
        restarts_for: files that it does not notice for long if they are new, by name.
        libraries: folders and files that change when libraries are installed or removed, as patterns.
        needs_marker: whether it is for projects with one of the markers only.
        is_optional: whether its absence is not worth a word, as for formats of data.
        options: the `initializationOptions`.
        settings: the answers to `workspace/configuration`, by section.
        ready: how it tells that its answers are complete.
        ready_title: for `progress` and `log-message`.
        changes: how it learns of changes by others.
        grace_s: seconds after such a notice within which it may still answer for the old files.
        opens_changed: whether it reads changed files late, and says nothing about that; then we open them.
        offers_pull: whether we offer `textDocument/diagnostic` with dynamic registration. Some servers stop
            publishing diagnostics, those of unopened files included, when it is offered.
        holds_empty_reports: whether it does not answer `workspace/diagnostic` while there are no diagnostics,
            and ends the progress of the request instead.
        check: for a checker, how it is run and read.
        runs_nothing_of_the_project: why it executes nothing that a project brings, whatever files of the
            project say. A server without a reason waits for the user's trust. The reason holds for the
            command, options and settings given here; `tests/languages/test_canaries.py` tries to refute it.
        project_code: what of the project it runs, e.g. `build scripts`, to tell whom the user trusts.
        caches: its folders in the user's cache folder, which it may write without trust.
        project_cache: likewise in a folder of the project that has one of `project_files`.
        package: where `lmtb languages install` gets it; None if it cannot.
        install: what a user does to install it, if there is no package.
        needs: programs that it runs to read a project, by name, each with how to install it.
        exact_query: how `workspace/symbol` is asked for names that end with `{name}`, if there is a way.
        doubt: what its answers may lack in this project, in a sentence; they are `partial` for this reason.
        limits: what its answers always lack, in a sentence; they are `partial` at best for this reason.
        diagnostic_limits: the same of its diagnostics only.
        misreads_encodings: whether it shifts columns, or loses uses, in a file with a byte order mark or in
            another encoding than UTF-8, unless the file is open.
        reads: folders elsewhere that hold libraries of this project.
        checked_files: the files that its command line would report about; None for all.
        needs_named_files: whether its configuration keeps files from it unless they are open.
        unknown_modules: libraries that it cannot find, so that it says nothing about imports of them.
    """

    name: str
    languages: Mapping[str, str]
    commands: tuple[tuple[str, ...], ...]
    roles: frozenset[Role] = frozenset({"symbols", "diagnostics"})
    markers: tuple[str, ...] = ()
    project_files: tuple[str, ...] = ()
    without_project_files: str = ""
    joins_open_files: bool = False
    uses_by_definition: bool = False
    restarts_for: frozenset[str] = frozenset()
    libraries: tuple[str, ...] = ()
    needs_marker: bool = False
    is_optional: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    ready: ReadySignal = "first-answer"
    ready_title: str = ""
    changes: ChangeNotice = "watched-files"
    grace_s: float = 0.0
    opens_changed: bool = False
    offers_pull: bool = True
    holds_empty_reports: bool = False
    check: Check | None = None
    runs_nothing_of_the_project: str = ""
    project_code: str = ""
    caches: tuple[str, ...] = ()
    project_cache: str = ""
    package: Package | None = None
    install: str = ""
    needs: Mapping[str, str] = field(default_factory=dict)
    exact_query: str = "{name}"
    doubt: str = ""
    limits: str = ""
    diagnostic_limits: str = ""
    misreads_encodings: bool = False
    reads: tuple[Path, ...] = ()
    checked_files: CheckedFiles | None = None
    needs_named_files: bool = False
    unknown_modules: frozenset[str] = frozenset()

    @property
    def install_step(self) -> str:
        """What a user types or reads to install it; empty if that is not known."""
        return self.install if self.package is None else f"{INSTALL_VERB} {self.name}"


def merged_deep(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables, and those in them; where both have a value, that of `over`."""
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = merged_deep(old, value) if both and old is not None else value
    return merged
