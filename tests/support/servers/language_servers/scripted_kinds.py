"""Kinds of scripted language servers, as a project would have them, for tests of what runs them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lm_tools_bridge.code_intelligence.server import RunnableProgram, Unavailable
from lm_tools_bridge.code_intelligence.server_process.server_supervisor import Limits, ServerSupervisor
from lm_tools_bridge.code_intelligence.session.pool import PoolContext, ServerPool
from lm_tools_bridge.code_intelligence.specification import Role, ServerSpecification
from support.servers.language_servers.scripted_language_server import QUICK, RecordedSync, command

LIMITS = Limits(idle_s=600, memory_bytes=2**40, check_s=0.05, wait_s=10)


class ScriptedKinds:
    """Kinds with the programs `bodies`, in this order.

    Attributes:
        bodies: the program of each kind; see `scripted_language_server`.
        unavailable: why kinds do not run, by name.
        env: what is added to the environment of all.
        limits: members of `RunnableProgram` for all.
        limits: `memory_limit_bytes` and `idle_s` of all.
        groups: the alternatives; without them every kind is a group of its own.
    """

    def __init__(self, bodies: Mapping[str, str], **members: Any) -> None:
        self.bodies = dict(bodies)
        self.unavailable: dict[str, Unavailable] = {}
        self.env: dict[str, str] = {}
        self.limits: dict[str, Any] = {}
        self.limits: dict[str, Any] = {}
        self.groups: list[list[str]] | None = None
        self.kinds = {
            name: ServerSpecification(name, {".txt": "text"}, ((name,),), **members) for name in bodies
        }

    def is_quick(self) -> bool:
        return False

    def known_kinds(self) -> Sequence[ServerSpecification]:
        return list(self.kinds.values())

    def choose_kinds(self, role: Role, path: Path | None) -> Sequence[Sequence[ServerSpecification]]:
        groups = self.groups or [[name] for name in self.kinds]
        if path is not None and path.suffix != ".txt":
            return []
        return [[self.kinds[name] for name in group] for group in groups]

    def kind_named(self, name: str) -> ServerSpecification | None:
        return self.kinds.get(name)

    def find(self, specification: ServerSpecification) -> RunnableProgram | Unavailable:
        missing = self.unavailable.get(specification.name)
        return missing or RunnableProgram(command(self.bodies[specification.name]), self.env, **self.limits)

    def forbid(self, name: str, state: Any = "untrusted") -> None:
        """Let a kind not run any more."""
        self.unavailable[name] = Unavailable(self.kinds[name], state, f"{name} is {state}")

    def limit(self, name: str, limits: str) -> None:
        """Let a kind's answers lack something."""
        self.kinds[name] = replace(self.kinds[name], limits=limits)


async def environment() -> Mapping[str, str]:
    """What every server of a test sees."""
    return {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}


class Pooled:
    """A pool of scripted servers, and what the parts that follow the project heard, in the order of starts."""

    def __init__(self, kinds: ScriptedKinds, folder: Path, limits: Limits, **options: Any) -> None:
        self.kinds = kinds
        self.syncs: list[RecordedSync] = []
        self._supervise = lambda name: ServerSupervisor(
            name, self._make_sync, limits=limits, timeouts=QUICK, chance=lambda: 0.5, **options
        )
        self.pool = ServerPool(kinds, PoolContext((folder,), environment, "1"), self._supervise)

    def _make_sync(self, peer: Any) -> RecordedSync:
        self.syncs.append(RecordedSync().make(peer))
        return self.syncs[-1]


@asynccontextmanager
async def pooled(
    bodies: Mapping[str, str] | str, folder: Path, limits: Limits = LIMITS, **options: Any
) -> AsyncIterator[Pooled]:
    """A pool for the time of the block; a single body is that of a kind named `scripted`."""
    found = {"scripted": bodies} if isinstance(bodies, str) else bodies
    made = Pooled(ScriptedKinds(found), folder, limits, **options)
    try:
        yield made
    finally:
        await made.pool.close()
