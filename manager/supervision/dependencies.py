"""The dependencies of supervision: settings, store, paths, clock and randomness."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from lm_tools_bridge.protocol.internal.launch import Folders
from manager.call_observer import NO_OBSERVER, CallObserver
from manager.configuration.settings import Settings
from manager.installation import Installation
from manager.state_file import Store
from manager.supervision.fork_server import ForkServerSupervisor
from manager.waiting_calls import NOBODY, WaitingCalls


class Dependencies(msgspec.Struct, frozen=True):
    """What supervisors need; the daemon makes one. Tests replace the clock (`now`, `sleep`) and `rng`.

    `folders` and `port` go into the launch instructions of workspace servers
    (`lm_tools_bridge/protocol/internal/launch.py`).
    Without `fork_server` workspace servers are spawned. `waiting_calls` gets the calls that wait for a
    person, and `observer` is told of tasks that have ended.
    """

    settings: Settings
    store: Store
    logs_dir: Path
    environ: Mapping[str, str]
    folders: Folders | None = None
    port: int = 0
    fork_server: ForkServerSupervisor | None = None
    installation: Installation | None = None
    waiting_calls: WaitingCalls = NOBODY
    observer: CallObserver = NO_OBSERVER
    now: Callable[[], float] = time.monotonic
    rng: random.Random = msgspec.field(default_factory=random.SystemRandom)
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep

    def with_environ(self, environ: Mapping[str, str]) -> Dependencies:
        """The same with another environment."""
        return structs.replace(self, environ=environ)

    @property
    def installation_problem(self) -> str | None:
        """Why no server can be started, if that is the installation."""
        return None if self.installation is None else self.installation.problem
