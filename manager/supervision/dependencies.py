"""What everything that keeps servers needs of the world around it, handed down once by the daemon."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from manager.settings import Settings
from manager.store import Store
from manager.supervision.fork_server_supervisor import ForkServerSupervisor
from protocol.internal.launch import Folders


@dataclass(frozen=True, slots=True)
class Dependencies:
    """What every supervisor needs of the world around it; clock and chance, too, so that tests own them.

    `folders` and `port` are handed on to workspace servers (see `protocol.internal.launch.Launch`); these
    are forked where there are `fork_server`.
    """

    settings: Settings
    store: Store
    logs_dir: Path
    environ: Mapping[str, str]
    folders: Folders | None = None
    port: int = 0
    fork_server: ForkServerSupervisor | None = None
    now: Callable[[], float] = time.monotonic
    rng: random.Random = field(default_factory=random.SystemRandom)
    sleep: Callable[[float], Coroutine[Any, Any, None]] = asyncio.sleep
