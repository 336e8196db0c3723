"""Runs a session: one input after the other, each as a task that Ctrl-C cancels."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from agent.command_line.exit_codes import CANCELLED
from agent.interaction import Tone
from agent.screen.interrupts import HINT, Interrupts
from agent.screen.screen import Interrupted
from agent.slash_commands import commands
from agent.slash_commands.command_table import Entered, Unknown, recognised
from agent.slash_commands.manual_mode import manual_input
from agent.slash_commands.session import Session


class SessionLoop:
    """The loop of a session.

    Args:
        session: what inputs act on.
        interrupts: counts Ctrl-C.
        interrupt_input: ends the prompt that waits, if a signal and not a key tells of Ctrl-C.
        ready: what has to end before the first input is run, such as the first list of tools.
    """

    def __init__(
        self,
        session: Session,
        interrupts: Interrupts,
        interrupt_input: Callable[[], None],
        ready: Coroutine[Any, Any, None],
    ) -> None:
        self._session = session
        self._interrupts = interrupts
        self._interrupt_input = interrupt_input
        self._ready = ready

    async def run(self) -> int:
        """Run until the person leaves; the exit code."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_signal)
        whole = asyncio.current_task()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if whole is not None:
                loop.add_signal_handler(number, whole.cancel)
        ready = loop.create_task(self._ready, name="first list of tools")
        try:
            while not (self._session.has_left or self._interrupts.leaving):
                text = await self._next_input()
                if text is None:
                    break
                await self._run(self._input(text, ready))
        finally:
            ready.cancel()
            with suppress(asyncio.CancelledError):
                await ready
            loop.remove_signal_handler(signal.SIGINT)
        return CANCELLED if self._interrupts.leaving else 0

    async def _next_input(self) -> str | None:
        try:
            return await self._session.screen.next_input(self._session.state_line)
        except Interrupted:
            if not self._interrupts.press():
                self._session.screen.notice(HINT)
            return ""

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that Ctrl-C cancels. What fails is shown; the session goes on."""
        task = self._interrupts.turn = asyncio.get_running_loop().create_task(work, name="turn")
        screen = self._session.screen
        try:
            await asyncio.wait([task])
            await task
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
                raise
            screen.notice("cancelled")
        except Exception as error:  # noqa: BLE001  a fault in one input does not end the session
            screen.notice(f"failed: {type(error).__name__}: {error}", Tone.ERROR)
        finally:
            screen.activity(None)
            self._interrupts.turn = None

    async def _input(self, text: str, ready: asyncio.Task[None]) -> None:
        entered = recognised(text)
        if isinstance(entered, Unknown):
            self._session.screen.notice(entered.text, Tone.WARNING)
            return
        if not text.strip() and not self._session.is_manual:
            return
        if not ready.done() and not (
            isinstance(entered, Entered) and entered.command.name in {"help", "quit"}
        ):
            self._session.screen.activity("listing the tools")
            await asyncio.wait([ready])
            self._session.screen.activity(None)
        if isinstance(entered, Entered):
            await commands.run(self._session, entered)
        elif self._session.is_manual:
            await manual_input(self._session, text)
        else:
            await self._session.conversation.turn(text)

    def _on_signal(self) -> None:
        if self._interrupts.turn is None:
            self._interrupt_input()
        else:
            self._interrupts.press()
