"""Defines the settings of code intelligence: of language servers, and of the tools `lm_clangd_*`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from workspace_server.config.model import EntryOrigin

CLANGD_KEYS: Final = {
    "enabled": "clangd.enabled",
    "auto_start": "clangd.autoStartOnInvoke",
    "passthrough": "clangd.enablePassthrough",
    "request_timeout_ms": "clangd.requestTimeoutMs",
    "allowed_methods": "clangd.allowedMethods",
}
"""The keys for the clangd tools, by the names of the fields of `ClangdSettings`."""


TRUST_PREFIX: Final = "language-server:"
"""The beginning of the keys of language servers, whose items `kinds/candidates.py` creates."""
TABLE_KEYS: Final = frozenset(
    {"language_servers.enabled", "language_servers.warm", "language_servers.compare_words"}
    | {"language_servers.new_errors", "language_servers.python_environment"}
)
"""What the table `[language_servers]` itself may say."""


@dataclass(frozen=True, slots=True)
class LanguageServerEntry:
    """What a file says of one kind of language server, with placeholders expanded; empty for nothing.

    Attributes:
        name: the kind's, or a new one.
        languages: the `languageId` by file suffix or name.
        options: the `initializationOptions`, added to the known ones.
        settings: likewise, the answers to `workspace/configuration`.
        env: variables beside those that every server gets.
        memory_limit_bytes, idle_s: in place of the usual limits.
        runs_nothing_of_the_project: why it may run without trust; only the user's own file can say so.
        raw: the entry as written.
    """

    name: str
    origin: EntryOrigin
    enabled: bool = True
    command: tuple[str, ...] = ()
    languages: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    memory_limit_bytes: int | None = None
    idle_s: float | None = None
    runs_nothing_of_the_project: str = ""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ClangdSettings:
    """Settings of the tools `lm_clangd_*`.

    Attributes:
        enabled: whether the tools exist.
        auto_start: whether a call may start clangd.
        passthrough: whether the tool that sends any request exists.
        request_timeout_ms: longest duration of one request.
        allowed_methods: the only methods which that tool may send; empty for all that it knows.
    """

    enabled: bool = False
    auto_start: bool = True
    passthrough: bool = True
    request_timeout_ms: int = 10_000
    allowed_methods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LanguageServerTable:
    """What a file says: whether there are language servers, None for nothing; and of single kinds.

    Only the user's file can say whether they start with the workspace server (`warm`), whether their
    answers are compared with the words in the project (`compare_words`), and whether answers tell of errors
    that came meanwhile (`new_errors`).
    `python_environment`: the folder of an environment of Python, relative to the project or absolute; empty
    for none. One that the project names lies in the project.
    """

    enabled: bool | None = None
    warm: bool = False
    compare_words: bool = True
    new_errors: bool = True
    entries: tuple[LanguageServerEntry, ...] = ()
    python_environment: str = ""


@dataclass(frozen=True, slots=True)
class CodeSettings:
    """What the files say together.

    Attributes:
        enabled: whether language servers and their tools are enabled.
        warm: whether language servers start with the workspace server, not at their first use.
        compare_words: whether answers are compared with the words in the project's files.
        new_errors: whether answers tell of errors that came since the client's last answer.
        entries: what the files say of single kinds of them; of a kind at most one a file.
        clangd: settings of the tools `lm_clangd_*`.
        python_environment: as `LanguageServerTable.python_environment`.
    """

    enabled: bool = True
    warm: bool = False
    compare_words: bool = True
    new_errors: bool = True
    entries: tuple[LanguageServerEntry, ...] = ()
    clangd: ClangdSettings = ClangdSettings()
    python_environment: str = ""
