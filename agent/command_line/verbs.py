"""Runs what `lmtb agent` was asked for: a session, one turn, the list of tools, the settings."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from agent.assembly import Agent, Folders
from agent.command_line.arguments import USAGE_EXIT, Arguments, text_of
from agent.command_line.exit_codes import CANCELLED, TERMINATED
from agent.interaction import Tone
from agent.screen.choice import one_shot_screen, session_screen
from agent.screen.interrupts import Interrupts
from agent.settings.file import load
from agent.slash_commands.command_table import completions

CONFIG_FILE: Final = "config.toml"
_NO_MODEL: Final = "no model is chosen yet: enter /model NAME, or /quit and run: lmtb agent config"


def run(arguments: Arguments) -> int:
    """Run it; the exit code."""
    verb = _VERBS[arguments.verb] if arguments.prompt is None else _one_turn
    try:
        if arguments.prompt is not None:
            # not in the loop, where the first Ctrl-C would not end it
            arguments.prompt = text_of(arguments.prompt)
        return asyncio.run(verb(arguments))
    except KeyboardInterrupt:
        return CANCELLED
    except asyncio.CancelledError:
        return TERMINATED
    except BrokenPipeError:
        # nobody reads any more, as of `lmtb agent -p … | head`; nor what is still to be flushed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


async def _session(arguments: Arguments) -> int:
    interrupts = Interrupts(time.monotonic)
    agent: Agent | None = None

    def completed(text: str) -> list[tuple[str, str]]:
        if agent is None:
            return []
        names = [offer.name for offer in agent.toolbox.offers]
        return completions(text, names, [source.name for source in agent.toolbox.sources])

    screen, interrupt_input = session_screen(interrupts, completed)
    try:
        loaded = load(_config_file(arguments))
        for problem in loaded.problems:
            screen.notice(problem, Tone.WARNING)
        agent = Agent(screen, loaded.settings, _folders(arguments), Path.cwd())
        from agent.command_line.session_loop import SessionLoop  # noqa: PLC0415

        try:
            if not _choose(agent, arguments):
                return 2
            if not (agent.session.is_manual or agent.conversation.model):
                screen.notice(_NO_MODEL, Tone.WARNING)
            if arguments.resume:
                await agent.resume_last()
            return await SessionLoop(agent.session, interrupts, interrupt_input, agent.warm_up()).run()
        finally:
            await agent.close()
    finally:
        screen.close()


async def _one_turn(arguments: Arguments) -> int:
    from agent.command_line.one_turn import one_turn  # noqa: PLC0415

    screen = one_shot_screen(as_json=arguments.json)
    text = arguments.prompt or ""
    if not text.strip():
        screen.notice("there is no text to send to the model", Tone.ERROR)
        return USAGE_EXIT
    loaded = load(_config_file(arguments))
    for problem in loaded.problems:
        screen.notice(problem, Tone.WARNING)
    agent = Agent(
        screen, loaded.settings, _folders(arguments), Path.cwd(),
        allowed=tuple(arguments.allow),
    )  # fmt: skip
    try:
        if not _choose(agent, arguments):
            return 2
        if arguments.resume:
            await agent.resume_last()
        await agent.prepare()
        return await one_turn(agent.conversation, text)
    finally:
        await agent.close()
        screen.close()


async def _list(arguments: Arguments) -> int:
    screen = one_shot_screen(as_json=False)
    loaded = load(_config_file(arguments))
    agent = Agent(screen, loaded.settings, _folders(arguments), Path.cwd())
    try:
        await agent.toolbox.refresh()
        states = {state.name: state for state in agent.toolbox.states()}
        if arguments.json:
            tools = [
                {"name": offer.name, "source": offer.source.name, "description": offer.tool.description}
                for offer in agent.toolbox.offers
            ]
            sources = {name: {"state": one.state, "detail": one.detail} for name, one in states.items()}
            sys.stdout.write(f"{json.dumps({'ok': True, 'tools': tools, 'sources': sources})}\n")
            return 0
        for offer in agent.toolbox.offers:
            sys.stdout.write(f"{offer.name}\n")
        for name, one in states.items():
            if one.state != "ready":
                screen.notice(f"{name}: {one.detail or one.state}", Tone.WARNING)
    finally:
        await agent.close()
    return 0


async def _serve(arguments: Arguments) -> int:
    from agent.command_line.offer import offer  # noqa: PLC0415

    screen = one_shot_screen(as_json=False)
    loaded = load(_config_file(arguments))
    folders, folder = _folders(arguments), Path.cwd()
    agent = Agent(screen, loaded.settings, folders, folder, allowed=arguments.allow)
    try:
        return await offer(
            agent.toolbox.sources[0], port=arguments.port, origins=arguments.origin, allowed=arguments.allow,
            as_json=arguments.json,
        )  # fmt: skip
    finally:
        await agent.close()


async def _config(arguments: Arguments) -> int:
    from agent.command_line.wizard import configure  # noqa: PLC0415

    interrupts = Interrupts(time.monotonic)
    screen, _ = session_screen(interrupts, lambda _: [])
    try:
        return await configure(screen, _config_file(arguments), arguments)
    except asyncio.CancelledError:
        return CANCELLED
    finally:
        screen.close()


def _choose(agent: Agent, arguments: Arguments) -> bool:
    """Take provider and model of the command line; False if there is no such provider."""
    if arguments.provider is not None:
        name = arguments.provider.lower()
        known = agent.providers()
        if name not in known:
            from host.near_names import did_you_mean  # noqa: PLC0415

            text = f"there is no provider {name}{did_you_mean(name, known)}; known: {', '.join(known)}"
            agent.session.screen.notice(text, Tone.ERROR)
            return False
        agent.session.choose(name)
    if arguments.model is not None:
        agent.conversation.choose(agent.conversation.provider, arguments.model)
    return True


def _config_file(arguments: Arguments) -> Path:
    return arguments.config_dir / CONFIG_FILE


def _folders(arguments: Arguments) -> Folders:
    return Folders(arguments.config_dir, arguments.state_dir, arguments.runtime_dir)


_VERBS: Final[Mapping[str, Callable[[Arguments], Coroutine[Any, Any, int]]]] = {
    "session": _session, "serve": _serve, "config": _config, "list": _list,
}  # fmt: skip
