"""Runs a session: one input after the other, each as a task that can be cancelled."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lm_tools_bridge.agent.command_line.arguments import CANCELLED
from lm_tools_bridge.agent.command_line.start import Opening
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.screen.line_input import write_nowhere
from lm_tools_bridge.agent.screen.screen import HINT, Interrupted, Interrupts, Screen
from lm_tools_bridge.agent.slash_commands.command_table import Entered, Unknown, recognised

if TYPE_CHECKING:
    from lm_tools_bridge.agent.slash_commands.session import Session


class SessionLoop:
    """The loop of a session.

    Args:
        screen: the person's.
        interrupts: counts Ctrl-C.
        interrupt_input: ends the prompt that waits, if a signal and not a key tells of Ctrl-C; returns
            whether one waits.
        opening: makes the agent, which is there only some time after the prompt.
        state_line: the line above the prompt until then.
    """

    def __init__(
        self,
        screen: Screen,
        interrupts: Interrupts,
        interrupt_input: Callable[[], bool],
        opening: Opening,
        state_line: str,
    ) -> None:
        self._screen = screen
        self._interrupts = interrupts
        self._interrupt_input = interrupt_input
        self._opening = opening
        self._state_line = state_line
        self._session: Session | None = None

    async def run(self, *, waits: bool) -> int:
        """Run until the person leaves; the exit code. If it `waits`, the prompt comes after the agent."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._on_signal)
        whole = asyncio.current_task()
        if whole is not None:
            loop.add_signal_handler(signal.SIGTERM, whole.cancel)
            loop.add_signal_handler(signal.SIGHUP, _hung_up, whole)
        opened = loop.create_task(self._open(), name="loading the agent")
        ready = loop.create_task(self._warm_up(opened), name="first list of tools")
        try:
            if waits:
                await opened
            while not self._is_over(opened):
                text = await self._next_input()
                if text is None:
                    break
                await self._run(self._input(text, opened, ready))
        finally:
            for task in (ready, opened):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            loop.remove_signal_handler(signal.SIGINT)
        return CANCELLED if self._interrupts.leaving else 0

    async def _open(self) -> Session:
        self._session = await self._opening.session()
        gc.freeze()  # what was loaded stays
        gc.enable()
        return self._session

    async def _warm_up(self, opened: asyncio.Task[Session]) -> None:
        await asyncio.wait([opened])
        if self._session is not None:
            await self._opening.warm_up()

    def _is_over(self, opened: asyncio.Task[Session]) -> bool:
        has_failed = opened.done() and self._session is None
        has_left = self._session is not None and self._session.has_left
        return has_left or has_failed or self._interrupts.leaving

    async def _next_input(self) -> str | None:
        try:
            line = self._state_line if self._session is None else self._session.state_line
            return await self._screen.next_input(line)
        except Interrupted:
            if not self._interrupts.press():
                self._screen.notice(HINT)
            return ""

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that Ctrl-C cancels. What fails is shown; the session goes on."""
        task = self._interrupts.turn = asyncio.get_running_loop().create_task(work, name="turn")
        screen = self._screen
        try:
            await asyncio.wait([task])
            await task
        except asyncio.CancelledError:
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            if (here := asyncio.current_task()) is not None and here.cancelling():
                raise  # the session ends, perhaps in the moment in which the turn ended
            screen.notice("cancelled")
        except Exception as error:  # noqa: BLE001  a fault in one input does not end the session
            screen.notice(f"failed: {type(error).__name__}: {error}", Tone.ERROR)
        finally:
            screen.activity(None)
            self._interrupts.turn = None

    async def _input(self, text: str, opened: asyncio.Task[Session], ready: asyncio.Task[None]) -> None:
        entered = recognised(text)
        if isinstance(entered, Unknown):
            self._screen.notice(entered.text, Tone.WARNING)
            return
        session = await asyncio.shield(opened)
        if not text.strip() and not session.is_manual:
            return
        if not ready.done() and not (
            isinstance(entered, Entered) and entered.command.name in {"help", "quit"}
        ):
            self._screen.activity("listing the tools")
            await asyncio.wait([ready])
            self._screen.activity(None)
        await self._act(session, entered, text)

    async def _act(self, session: Session, entered: Entered | None, text: str) -> None:
        from lm_tools_bridge.agent.slash_commands import commands, manual_mode

        if entered is not None:
            await commands.run(session, entered)
        elif session.is_manual:
            await manual_mode.manual_input(session, text)
        else:
            await session.conversation.turn(text)

    def _on_signal(self) -> None:
        is_prompt = self._interrupts.turn is None and self._interrupt_input()
        if not is_prompt:  # else the end of the prompt counts it
            self._interrupts.press()


def _hung_up(whole: asyncio.Task[Any]) -> None:
    """The terminal is gone: end in order, and write to nowhere, since writing to it would fail."""
    write_nowhere()
    whole.cancel()
