"""The model's side of agent sessions: each is known by a word in its prompt, and is told step by step what to do."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from support.clients.agents import Agent
from support.servers.models.formats.steps import Call, Json, ModelRequest, Say, Step

PATIENCE_S = 60.0
"""By when an agent makes its next request; opencode on a busy machine needs 15 s for its first one."""
TRIES = 3
"""How often a tool is called that is not offered; each answer gives the agent time to list it."""
EXCERPT = 400
_WORD = re.compile(r"session-([0-9a-f]{8})")
_ASKS = re.compile(r"Next step: call lmToolsBridge.*with cwd")
_HOST_TOOL = re.compile(r"lmToolsBridge[._-]callTool")


class NoAnswer(Exception):
    """The agent made no request in time, or ended before it did; with what it printed."""


@dataclass(frozen=True)
class Reading:
    """One call of a read tool, as a model saw it.

    Attributes:
        expected: the folder that the agent works in.
        was_offered: whether the agent offered the tool by its name.
        asked: the answer by which the model was first asked to name its folder; empty if it was not.
        text: what the model was answered.
        seen: what `lmtb whoami` said right after it.
    """

    expected: Path
    was_offered: bool
    text: str
    seen: str
    asked: str = ""


@dataclass
class Conversation:
    """One session of an agent, from its model's side.

    Attributes:
        word: what tells its requests from those of other sessions.
        requests: those that were taken so far.
        ended: completes with an explanation when the agent's program ends.
    """

    agent: Agent
    whoami: Callable[[], Awaitable[str]]
    readings: list[Reading]
    word: str = field(default_factory=lambda: secrets.token_hex(4))
    requests: list[ModelRequest] = field(default_factory=list)
    ended: asyncio.Future[str] | None = None

    def __post_init__(self) -> None:
        self._arriving: asyncio.Queue[ModelRequest] = asyncio.Queue()
        self._steps: asyncio.Queue[Step] = asyncio.Queue()
        self._over = False

    @property
    def prompt(self) -> str:
        """What the agent is asked."""
        return f"Do as you like in session-{self.word}."

    async def answer(self, request: ModelRequest) -> Step:
        """What the model does; waits until somebody says it."""
        if self._over:
            return Say("done")
        self._arriving.put_nowait(request)
        return await self._steps.get()

    async def take(self, step: Step | None = None) -> ModelRequest:
        """Answer the last request with a step, if any, and wait for the next one.

        Raises:
            NoAnswer: it does not come.
        """
        if step:
            self.answer_with(step)
        arrival = asyncio.ensure_future(self._arriving.get())
        waiting: set[asyncio.Future[ModelRequest] | asyncio.Future[str]] = {arrival}
        if self.ended:
            waiting.add(self.ended)
        await asyncio.wait(waiting, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if not arrival.done():
            arrival.cancel()
            raise NoAnswer(self.ended.result() if self.ended and self.ended.done() else "no request in time")
        self.requests.append(arrival.result())
        return self.requests[-1]

    def answer_with(self, step: Step) -> None:
        """Answer the last request, without waiting for the next one."""
        self._steps.put_nowait(step)

    def finish(self) -> None:
        """Answer the last request, and all later ones, with the end of the turn."""
        self._over = True
        self._steps.put_nowait(Say("done"))

    async def begin(self) -> None:
        """Wait for the first request, if it has not come."""
        if not self.requests:
            await self.take()

    async def read(self, expected: Path, file: str = "nonce.txt") -> None:
        """Have the agent read a file by our tool; note what came.

        Args:
            expected: the folder whose file the model means.
            file: relative to it.
        """
        await self.begin()
        for _ in range(TRIES):
            was_offered = "lm_readFile" in self.agent.ours(self.requests[-1])
            step = self._reading_step(was_offered, {"filePath": file})
            answered = await self.take(step)
            if was_offered or _HOST_TOOL.search(step.tool):
                break
        asked = answered.last_result[:EXCERPT] if _ASKS.search(answered.last_result) else ""
        host_tool = next(filter(_HOST_TOOL.search, self.requests[-1].tools), None)
        if asked and host_tool:
            named = {"name": "lm_readFile", "arguments": {"filePath": file}, "cwd": str(expected)}
            answered = await self.take(Call(host_tool, named))
        seen = await self.whoami()
        self.readings.append(Reading(expected, was_offered, answered.last_result[:EXCERPT], seen, asked))

    def _reading_step(self, was_offered: bool, arguments: Json) -> Call:
        """The tool itself; through the host tool where only that is offered."""
        if not was_offered:
            for name in self.requests[-1].tools:
                if _HOST_TOOL.search(name):
                    return Call(name, {"name": "lm_readFile", "arguments": arguments})
        return self.agent.call("lm_readFile", arguments)


class Conversations:
    """All sessions with one model."""

    def __init__(self) -> None:
        self._by_word: dict[str, Conversation] = {}

    def add(self, conversation: Conversation) -> Conversation:
        """Have its requests answered."""
        self._by_word[conversation.word] = conversation
        return conversation

    async def next_step(self, request: ModelRequest) -> Step:
        """The script of the model: the newest word in a request says whose it is."""
        words = _WORD.findall(json.dumps(request.body))
        known = [word for word in words if word in self._by_word]
        return await self._by_word[known[-1]].answer(request) if known else Say("done")
