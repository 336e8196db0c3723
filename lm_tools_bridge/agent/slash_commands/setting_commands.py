"""The command `/config`: shows the settings, changes one, and saves it for later sessions."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.interaction import Tone
from lm_tools_bridge.agent.settings.file import NotEditable, load, save
from lm_tools_bridge.agent.settings.manager_address import manager_endpoint
from lm_tools_bridge.agent.settings.settings import FIELDS, AgentSettings, default, description
from lm_tools_bridge.agent.slash_commands.session import Session
from lm_tools_bridge.agent.slash_commands.tables import table
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
