"""Defines how requests are repeated: who is told of a pause, how it is slept, and what spreads the pauses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lm_tools_bridge.backoff import backoff


@dataclass(frozen=True, slots=True)
class Retries:
    """How one provider repeats requests.

    Attributes:
        on_wait: is told why, before a pause between two attempts.
        sleep: sleeps for a number of seconds.
        chance: a random number in [0, 1).
    """

    on_wait: Callable[[str], None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    chance: Callable[[], float] = random.random

    async def pause(self, what: str, attempts: int, wait_s: float | None) -> None:
        """Say what happened, and wait: as long as the server asks, else longer after each attempt."""
        seconds = backoff(attempts, self.chance()) if wait_s is None else wait_s
        self.on_wait(f"{what}; trying again in {seconds:.0f} s")
        await self.sleep(seconds)
