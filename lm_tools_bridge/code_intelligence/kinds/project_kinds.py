"""Defines what the pool of servers asks about the kinds of servers that a project can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification


@dataclass(frozen=True, slots=True)
class RunnableProgram:
    """The program of a kind, as it may run now.

    Attributes:
        argv: the resolved command line; the first word is an absolute path.
        env: variables beside those that every server gets.
        cwd: the folder to run in; None for the workspace's first folder.
        memory_limit_bytes, idle_s: in place of the usual limits.
        is_fenced: whether it runs without the user's trust, and so behind `server_process/fence.py`.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    memory_limit_bytes: int | None = None
    idle_s: float | None = None
    is_fenced: bool = False


class Kinds(Protocol):
    """The kinds of servers for one workspace. All methods block, and are called before each answer.

    So they keep what they found, and notice changes of files, settings and trust by a few `stat` calls.
    """

    def is_quick(self) -> bool:
        """Whether the other methods take microseconds now. Does not block."""

    def known_kinds(self) -> Sequence[ServerSpecification]:
        """The kinds whose languages the project has, installed or not."""

    def choose_kinds(self, role: Role, path: Path | None) -> Sequence[Sequence[ServerSpecification]]:
        """Which kinds to ask about a file, or about the project: groups of alternatives, best first.

        Of each group the first one that runs is asked; the others are not started.
        """

    def kind_named(self, name: str) -> ServerSpecification | None:
        """The kind of this name; None if there is none."""

    def find(self, specification: ServerSpecification) -> RunnableProgram | Unavailable:
        """Its program, or why it does not run here (`missing`, `untrusted`, `disabled`).

        A running server is replaced when this changes.
        """
