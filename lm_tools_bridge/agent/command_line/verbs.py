"""Runs what `lmtb agent` was asked for, on the screen that fits its standard streams."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lm_tools_bridge.agent.agent_settings import MANUAL
from lm_tools_bridge.agent.command_line.arguments import (
    CANCELLED,
    TERMINATED,
    TURN_EXITS,
    USAGE_EXIT,
    Arguments,
    text_of,
)
from lm_tools_bridge.agent.command_line.start import Opening, agent_of, config_file, models_of, read_start
from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.screen.line_input import LineInput, is_gone, write_nowhere
from lm_tools_bridge.agent.screen.plain_screen import JsonScreen, PlainScreen
from lm_tools_bridge.agent.screen.screen import Completions, Interrupts, Screen
from lm_tools_bridge.agent.settings_file import load
from lm_tools_bridge.terminal.screen import has_colour
from lm_tools_bridge.text.near_names import did_you_mean

if TYPE_CHECKING:
    from lm_tools_bridge.agent.assembly import Agent
    from lm_tools_bridge.agent.conversation.conversation import Conversation


_NO_MODEL: Final = "no model is chosen yet: enter /model NAME; else the first question asks {} for its models"


def session_screen(interrupts: Interrupts, completions: Completions) -> tuple[Screen, Callable[[], bool]]:
    """The screen of a session, and a function that ends its prompt, as the key Ctrl-C does.

    The function returns whether a prompt waits.
    """
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal and has_colour(sys.stdout):
        # a session in a pipe does not need prompt_toolkit
        from lm_tools_bridge.agent.screen.terminal_screen import TerminalScreen

        screen = TerminalScreen(interrupts, completions)
        return screen, screen.interrupt
    line_input = LineInput(sys.stdin.fileno())
    return PlainScreen(sys.stdout, sys.stdout, line_input, asks=is_terminal), line_input.interrupt


def one_shot_screen(*, as_json: bool) -> Screen:
    """The screen of one turn: the reply on standard output, the rest on standard error; nobody is asked."""
    if as_json:
        return JsonScreen(sys.stdout)
    return PlainScreen(sys.stdout, sys.stderr, None, asks=False)


def run(arguments: Arguments) -> int:
    """Run it; the exit code."""
    verb = _VERBS[arguments.verb] if arguments.prompt is None else _one_turn
    if verb is not _session:
        gc.enable()
    try:
        if arguments.prompt is not None:
            # not in the loop, where the first Ctrl-C would not end it
            arguments.prompt = text_of(arguments.prompt)
        return asyncio.run(verb(arguments))
    except KeyboardInterrupt:
        return CANCELLED
    except asyncio.CancelledError:
        return TERMINATED
    except OSError as error:
        if not is_gone(error):
            raise
        write_nowhere()  # as of `lmtb agent -p … | head`
        return 1


async def _session(arguments: Arguments) -> int:
    from lm_tools_bridge.agent.command_line.session_loop import SessionLoop  # only a session needs it

    interrupts = Interrupts(time.monotonic)
    opening: Opening | None = None

    def completed(text: str) -> Sequence[tuple[str, str]]:
        return () if opening is None else opening.completions(text)

    screen, interrupt_input = session_screen(interrupts, completed)
    try:
        start = read_start(screen, arguments)
        if start is None:
            return 2
        if not start.model and start.provider != MANUAL:
            screen.notice(_NO_MODEL.format(start.provider), Tone.WARNING)
        opening = Opening(screen, start, arguments)
        try:
            return await SessionLoop(screen, interrupts, interrupt_input, opening, start.state_line).run(
                waits=arguments.resume
            )
        finally:
            await opening.close()
    finally:
        screen.close()


async def _one_turn(arguments: Arguments) -> int:
    screen = one_shot_screen(as_json=arguments.json)
    text = arguments.prompt or ""
    if not text.strip():
        screen.notice("there is no text to send to the model", Tone.ERROR)
        return USAGE_EXIT
    start = read_start(screen, arguments)
    if start is None:
        return 2
    agent = agent_of(screen, start, arguments, tuple(arguments.allow))
    try:
        if arguments.resume:
            await agent.resume_last()
        await agent.prepare()
        await _warn_of_unknown(agent, screen, arguments.allow)
        return await _run_turn(agent.conversation, text)
    finally:
        await agent.close()
        screen.close()


async def _run_turn(conversation: Conversation, text: str) -> int:
    """The exit code of a turn. Ctrl-C and SIGTERM cancel it in order."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(conversation.turn(text), name="turn")
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        outcome = await task
    except asyncio.CancelledError:
        return CANCELLED
    return TURN_EXITS[outcome.ending]


async def _list(arguments: Arguments) -> int:
    screen = one_shot_screen(as_json=False)
    start = read_start(screen, arguments)
    if start is None:
        return 2
    agent = agent_of(screen, start, arguments)
    try:
        await agent.toolbox.refresh()
        states = {state.name: state for state in agent.toolbox.states()}
        if arguments.json:
            tools = [
                {"name": offer.name, "source": offer.source.name, "description": offer.tool.description}
                for offer in agent.toolbox.offers
            ]
            sources = {
                name: {"state": source.state, "detail": source.detail} for name, source in states.items()
            }
            sys.stdout.write(f"{json.dumps({'ok': True, 'tools': tools, 'sources': sources})}\n")
            return 0
        for offer in agent.toolbox.offers:
            sys.stdout.write(f"{offer.name}\n")
        for name, source in states.items():
            if source.state != "ready":
                screen.notice(f"{name}: {source.detail or source.state}", Tone.WARNING)
    finally:
        await agent.close()
    return 0


async def _serve(arguments: Arguments) -> int:
    from lm_tools_bridge.agent.tool_service.source_service import offer

    screen = one_shot_screen(as_json=False)
    start = read_start(screen, arguments)
    if start is None:
        return 2
    agent = agent_of(screen, start, arguments, arguments.allow)
    try:
        await _warn_of_unknown(agent, screen, arguments.allow)
        return await offer(
            agent.toolbox.sources[0], port=arguments.port, origins=arguments.origin, allowed=arguments.allow,
            as_json=arguments.json,
        )  # fmt: skip
    finally:
        await agent.close()


async def _warn_of_unknown(agent: Agent, screen: Screen, allowed: Sequence[str]) -> None:
    """Say which allowed tools do not exist; nothing as long as not all tools can be listed."""
    if not allowed:
        return
    await agent.toolbox.refresh()
    if any(state.state != "ready" for state in agent.toolbox.states()):
        return
    tool_names = {name for offer in agent.toolbox.offers for name in (offer.name, offer.tool.name)}
    for name in allowed:
        if name not in tool_names:
            screen.notice(
                f"--allow {name}: there is no such tool{did_you_mean(name, tool_names)}", Tone.WARNING
            )


async def _acp(arguments: Arguments) -> int:
    from lm_tools_bridge.agent.acp_server import serve_editor

    def make(screen: Screen, workspace: Path) -> Agent | None:
        start = read_start(screen, arguments, workspace)
        if start is None:
            return None
        # an editor cannot ask for a password
        settings = msgspec.structs.replace(start.settings, sudo="refuse")
        return agent_of(screen, start._replace(settings=settings), arguments, workspace=workspace)

    return await serve_editor(make)


async def _config(arguments: Arguments) -> int:
    from lm_tools_bridge.agent.command_line.wizard import configure

    interrupts = Interrupts(time.monotonic)
    screen, _ = session_screen(interrupts, lambda _: [])
    file = config_file(arguments)

    async def listed(name: str) -> Sequence[str]:
        return await models_of(screen, load(file).settings, arguments, name)

    try:
        return await configure(screen, file, arguments, listed)
    except asyncio.CancelledError:
        return CANCELLED
    finally:
        screen.close()


_VERBS: Final[Mapping[str, Callable[[Arguments], Coroutine[Any, Any, int]]]] = {
    "session": _session, "serve": _serve, "acp": _acp, "config": _config,
    "list": _list,
}  # fmt: skip
