"""Runs slash commands by a table of names; `/config` shows, changes and saves the settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.agent_settings import FIELDS, MANUAL, AgentSettings, default, description
from lm_tools_bridge.agent.interaction import Question, Tone
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.settings_file import NotEditable, load, manager_endpoint, save
from lm_tools_bridge.agent.slash_commands import tool_commands
from lm_tools_bridge.agent.slash_commands.command_table import Entered, help_lines
from lm_tools_bridge.agent.slash_commands.model_choice import change_model
from lm_tools_bridge.agent.slash_commands.session import Session
from lm_tools_bridge.agent.slash_commands.tool_menu import table
from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.machine.private_files import LockTimeout, UnsafePathError
from lm_tools_bridge.terminal.views import Column, Kind
from lm_tools_bridge.text.near_names import did_you_mean

_AT_START: Final = frozenset({"default_provider", "endpoint", "local_tools", "providers", "sudo", "tool_s"})
"""Settings that are read when a session starts."""
_REMOVED: Final = "default"
"""The word that removes a setting from the file."""


async def config(session: Session, argument: str) -> None:
    """Show all settings, show one, or change one. Conversation and provider stay as they are."""
    key, _, value = argument.partition(" ")
    name = key.partition(".")[0]
    if not key:
        session.screen.lines([*_settings(session), f"in [agent] of {session.config_file}"])
    elif name not in FIELDS:
        session.screen.notice(f"there is no setting {key}{did_you_mean(key, FIELDS)}", Tone.WARNING)
    elif not value:
        session.screen.lines([_line(session, name), description(name)])
    else:
        await _change(session, tuple(key.split(".")), value.strip())


def _line(session: Session, name: str) -> str:
    value = getattr(session.settings, name)
    if value != default(name):
        return f"{name} = {shown(value)}"
    return f"{name} = {shown(_in_use(session, name))} (default)"


def _in_use(session: Session, name: str) -> Any:
    """The value of a setting; the default address of the manager is the one of its own settings."""
    value = getattr(session.settings, name)
    if name == "endpoint" and value == default(name):
        return manager_endpoint(session.config_file, os.environ)
    return value


def shown(value: Any) -> str:
    """A value as TOML writes it, nearly; `automatic` for none."""
    return "automatic" if value is None else msgspec.json.encode(value).decode()


def _settings(session: Session) -> list[str]:
    rows = [
        (name, shown(_in_use(session, name)), "default" if is_default else "changed")
        for name in FIELDS
        for is_default in [getattr(session.settings, name) == default(name)]
    ]
    return table((Column("SETTING", Kind.NAME), Column("VALUE"), Column("")), rows)


async def _change(session: Session, key: tuple[str, ...], text: str) -> None:
    value = None if text == _REMOVED else _value(text)
    try:
        loaded = await asyncio.to_thread(_saved, session.config_file, key, value)
    except (NotEditable, LockTimeout, UnsafePathError, OSError) as error:
        session.screen.notice(f"not saved: {worded(error)}", Tone.ERROR)
        return
    model = {**session.settings.model, **loaded.model}
    loaded = session.settings = msgspec.structs.replace(loaded, model=model)
    session.conversation.configure(loaded)
    if key == ("human_in_loop",):
        session.ask(loaded.human_in_loop)
    if key[0] == "model" and key[-1] == session.conversation.provider:
        session.conversation.choose(session.conversation.provider)
    later = "; it counts from the next session on" if key[0] in _AT_START else ""
    session.screen.notice(f"{'.'.join(key)} = {'default' if value is None else shown(value)}, saved{later}")


def _value(text: str) -> Any:
    """What was typed, as JSON where it is; anything else is a text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return text


def _saved(path: Path, key: tuple[str, ...], value: Any) -> AgentSettings:
    save(path, {key: value})
    return load(path).settings


Handler = Callable[[Session, str], Awaitable[None]]


async def run(session: Session, entered: Entered) -> None:
    """Run a command. What goes wrong is shown."""
    await _HANDLERS[entered.command.name](session, entered.argument)


async def _help(session: Session, _: str) -> None:
    session.screen.lines(help_lines())


async def _mode(session: Session, argument: str) -> None:
    modes = session.modes()
    mode_names = dict.fromkeys([*modes, *session.settings.provider_names()])
    mode = argument.lower() or _following(modes, session)
    if mode not in mode_names:
        hint = did_you_mean(mode, mode_names)
        session.screen.notice(
            f"there is no provider {mode}{hint}; known: {', '.join(mode_names)}", Tone.WARNING
        )
        return
    session.choose(mode)
    if mode == MANUAL:
        session.screen.notice("manual mode: enter the number or name of a tool; Enter lists them")
        return
    model = session.conversation.model
    session.screen.notice(f"{mode}: {model}" if model else f"{mode}: no model is chosen; /model NAME")


def _following(modes: list[str], session: Session) -> str:
    current = MANUAL if session.is_manual else session.conversation.provider
    at = modes.index(current) if current in modes else 0
    return modes[(at + 1) % len(modes)]


async def _model(session: Session, argument: str) -> None:
    conversation = session.conversation
    if session.is_manual:
        session.screen.notice("manual mode has no model; /mode NAME goes to a provider")
        return
    model = argument or await _picked_model(session)
    if model:
        conversation.choose(conversation.provider, model)
    session.screen.notice(f"{conversation.provider}: {conversation.model or 'no model is chosen'}")


async def _picked_model(session: Session) -> str:
    """The model that the person picks of those that the provider lists; the current one if none is."""
    conversation = session.conversation
    try:
        models = await session.models(conversation.provider)
    except ProviderFailure as failure:
        session.screen.notice(f"the models cannot be listed: {failure}", Tone.WARNING)
        return conversation.model
    return await change_model(session.screen, conversation.provider, models, conversation.model)


async def _hil(session: Session, _: str) -> None:
    session.ask(not session.asks)
    on = session.asks
    session.screen.notice("calls are asked about" if on else "calls run without a question in this session")


async def _clear(session: Session, _: str) -> None:
    session.conversation.clear()
    await session.saved.keep(())  # what was said stays in its file, and what follows gets another one
    session.screen.notice("the conversation is forgotten")


async def _compact(session: Session, _: str) -> None:
    if await session.conversation.summarise():
        session.screen.notice(f"older turns are summarised; {session.conversation.context_line}")
    else:
        session.screen.notice("there is nothing to summarise")


async def _context(session: Session, _: str) -> None:
    session.screen.notice(session.conversation.context_line or "nothing was sent to a model yet")


async def _resume(session: Session, argument: str) -> None:
    entries = await asyncio.to_thread(session.saved.entries)
    if not entries:
        session.screen.notice("there is no saved session of this folder")
        return
    if not argument:
        rows = [f"{number:>3}. {saved.when}  {saved.title}" for number, saved in enumerate(entries, start=1)]
        session.screen.lines(rows[:20])
        argument = (await session.screen.ask(Question("Session (Enter: none): ")) or "").strip()
    if not argument:
        return
    if not (argument.isascii() and argument.isdigit() and 1 <= int(argument[:9]) <= len(entries)):
        session.screen.notice(f"there is no session {argument}; /resume lists them", Tone.WARNING)
        return
    entry = entries[int(argument[:9]) - 1]
    messages = await asyncio.to_thread(session.saved.load, entry.id)
    session.conversation.restore(messages)
    session.screen.notice(f"goes on with {len(messages)} messages of {entry.when}")


async def _quit(session: Session, _: str) -> None:
    session.has_left = True


_HANDLERS: Final[Mapping[str, Handler]] = {
    "help": _help,
    "mode": _mode,
    "model": _model,
    "hil": _hil,
    "clear": _clear,
    "compact": _compact,
    "context": _context,
    "resume": _resume,
    "quit": _quit,
    "config": config,
    "list": tool_commands.list_tools,
    "tools": tool_commands.tools,
    "servers": tool_commands.servers,
    "toggle": tool_commands.toggle,
    "last": tool_commands.last,
}
