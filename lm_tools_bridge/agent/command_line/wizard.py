"""The step by step configuration `lmtb agent config`, and the import of `~/.ollmcpc.json`."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.agent.agent_settings import MANUAL, AgentSettings
from lm_tools_bridge.agent.command_line.arguments import Arguments
from lm_tools_bridge.agent.interaction import Question, Tone
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.screen.screen import Screen
from lm_tools_bridge.agent.settings_file import NotEditable, StdioServer, add_servers, load, save
from lm_tools_bridge.agent.slash_commands.model_choice import picked, show_models
from lm_tools_bridge.machine import private_files
from lm_tools_bridge.machine.disks import worded
from lm_tools_bridge.text.near_names import did_you_mean

_MODELS: Final = {"ollama_model": "ollama", "gemini_model": "gemini"}


class NotReadable(ValueError):
    """The file is no JSON object; the message says why."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What the file says.

    Attributes:
        changes: keys below `[agent]` -> values.
        keys: provider -> key, which belongs into the secret store.
        warnings: what was skipped, and why.
    """

    changes: Mapping[tuple[str, ...], Any]
    servers: tuple[StdioServer, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()


def read_ollmcpc(content: bytes) -> Imported:
    """Read the file.

    Raises:
        NotReadable: it is no JSON object.
    """
    try:
        document = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotReadable(f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise NotReadable("it is no JSON object")
    changes: dict[tuple[str, ...], Any] = {}
    warnings: list[str] = []
    provider = document.get("default_provider")
    if isinstance(provider, str) and provider:
        changes["default_provider",] = provider.lower()
    for member, name in _MODELS.items():
        if isinstance(document.get(member), str) and document[member]:
            changes["model", name] = document[member]
    if isinstance(document.get("human_in_loop"), bool):
        changes["human_in_loop",] = document["human_in_loop"]
    elif "human_in_loop" in document:
        warnings.append("human_in_loop is neither true nor false; skipped")
    key = document.get("gemini_api_key")
    keys = {"gemini": key} if isinstance(key, str) and key else {}
    return Imported(changes, tuple(_servers(document.get("servers"), warnings)), keys, tuple(warnings))


def _servers(entries: Any, warnings: list[str]) -> list[StdioServer]:
    servers = []
    if entries is not None and not isinstance(entries, list):
        warnings.append("servers is no list; skipped")
    for number, entry in enumerate(entries if isinstance(entries, list) else [], start=1):
        name, command = (entry.get("name"), entry.get("command")) if isinstance(entry, dict) else (None, None)
        if not (isinstance(name, str) and name and isinstance(command, str) and command.strip()):
            warnings.append(f"server {number} has no name or no command; skipped")
            continue
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            warnings.append(f"server {name}: its command cannot be read ({error}); skipped")
            continue
        servers.append(StdioServer(name, words, entry.get("enabled") is not False))
    return servers


OLLMCPC: Final = ".ollmcpc.json"
_LARGEST: Final = 1024 * 1024  # bytes of a file that the wizard reads whole; settings have a few thousand
_YES: Final = frozenset({"", "y", "yes"})
_WORDS: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_FAULTS: Final = (NotEditable, private_files.LockTimeout, private_files.UnsafePathError, OSError)


ModelsOf = Callable[[str], Awaitable[Sequence[str]]]
"""The models that a provider lists; may raise ProviderFailure."""


async def configure(screen: Screen, config_file: Path, arguments: Arguments, models_of: ModelsOf) -> int:
    """Import a file, print the settings, or ask for them; the exit code."""
    if arguments.imported is not None:
        return await _imported(screen, config_file, arguments.imported)
    loaded = load(config_file)
    if arguments.json:
        members = {"ok": True, "settings": msgspec.to_builtins(loaded.settings), "problems": loaded.problems}
        sys.stdout.write(f"{json.dumps(members)}\n")
        return 0
    for problem in loaded.problems:
        screen.notice(problem, Tone.WARNING)
    old = Path.home() / OLLMCPC
    if await asyncio.to_thread(_is_first, old, config_file):
        answer = await screen.ask(Question(f"Take over {old}? ([y]/n): "))
        if answer is not None and answer.strip().lower() in _YES:
            return await _imported(screen, config_file, old)
    changes = await _ask_choices(screen, loaded.settings, models_of)
    if changes is None:
        screen.notice(f"nothing was changed; the settings are in [agent] of {config_file}")
        return 1
    return await _saved(screen, config_file, changes)


async def _ask_choices(
    screen: Screen, settings: AgentSettings, models_of: ModelsOf
) -> dict[tuple[str, ...], Any] | None:
    """What a person chooses; None if nobody answers."""
    provider_names = (*settings.provider_names(), MANUAL)
    screen.notice(f"providers: {', '.join(provider_names)}")
    provider = await _answer(screen, "Provider", settings.default_provider)
    while provider is not None and provider.lower() not in provider_names:
        screen.notice(
            f"there is no provider {provider}{did_you_mean(provider, provider_names)}", Tone.WARNING
        )
        provider = await _answer(screen, "Provider", settings.default_provider)
    if provider is None:
        return None
    name = provider.lower()
    changes: dict[tuple[str, ...], Any] = {("default_provider",): name}
    if name != MANUAL:
        models = await _show_models(screen, name, models_of)
        model = await _answer(screen, f"Model of {name}", settings.model.get(name, ""))
        if model is None:
            return None
        if model:
            changes["model", name] = picked(model, models)
        if name != "ollama":
            screen.notice(f"its key is looked up in the environment, then in: lmtb secrets set {name}")
    usual = "yes" if settings.human_in_loop else "no"
    asks = await _answer(screen, "Ask before calls (yes, no)", usual)
    while asks is not None and asks.lower() not in _WORDS:
        screen.notice("enter yes or no", Tone.WARNING)
        asks = await _answer(screen, "Ask before calls (yes, no)", usual)
    if asks is None:
        return None
    changes["human_in_loop",] = _WORDS[asks.lower()]
    return changes


async def _show_models(screen: Screen, name: str, models_of: ModelsOf) -> Sequence[str]:
    """The models of a provider, which are shown; none if it does not tell them now, which is no fault."""
    try:
        models = await models_of(name)
    except ProviderFailure as failure:
        screen.notice(f"its models cannot be listed now: {failure.cause}")
        return ()
    if models:
        show_models(screen, name, models)
    return models


async def _answer(screen: Screen, prompt: str, usual: str) -> str | None:
    """What is entered; an empty input means the usual answer, which the prompt shows."""
    answer = await screen.ask(Question(f"{prompt} [{usual}]: " if usual else f"{prompt}: "))
    return None if answer is None else answer.strip() or usual


async def _saved(screen: Screen, config_file: Path, changes: dict[tuple[str, ...], Any]) -> int:
    try:
        await asyncio.to_thread(save, config_file, changes)
    except _FAULTS as error:
        screen.notice(f"not saved: {worded(error)}", Tone.ERROR)
        return 1
    screen.notice(f"saved in {config_file}")
    return 0


async def _imported(screen: Screen, config_file: Path, file: Path) -> int:
    try:
        imported_settings = read_ollmcpc(await asyncio.to_thread(_content, file))
    except (NotReadable, private_files.UnsafePathError, OSError) as error:
        screen.notice(f"{file} cannot be taken over: {worded(error)}", Tone.ERROR)
        return 1
    for warning in imported_settings.warnings:
        screen.notice(warning, Tone.WARNING)
    code = await _saved(screen, config_file, dict(imported_settings.changes))
    if code:
        return code
    return await _import_rest(screen, config_file, imported_settings)


def _is_first(old: Path, config_file: Path) -> bool:
    return old.exists() and not config_file.exists()


def _content(file: Path) -> bytes:
    return private_files.read(file.resolve(), _LARGEST, private=False) or b""


async def _import_rest(screen: Screen, config_file: Path, imported_settings: Imported) -> int:
    """The servers and the keys."""
    workspace_file = config_file.with_name("workspace.toml")
    try:
        added = await asyncio.to_thread(add_servers, workspace_file, imported_settings.servers)
    except _FAULTS as error:
        screen.notice(f"the servers were not taken over: {worded(error)}", Tone.ERROR)
        return 1
    if added:
        screen.notice(f"servers for every project, in {workspace_file}: {', '.join(added)}")
    for name, key in imported_settings.keys.items():
        if not await _stored(name, key):
            screen.notice(
                f"the key of {name} was not stored; do it with: lmtb secrets set {name}", Tone.ERROR
            )
            return 1
        screen.notice(f"the key of {name} is in the secret store")
    return 0


async def _stored(name: str, key: str) -> bool:
    """Store a key by `lmtb secrets set`, which reads it from a pipe, so that no command line has it."""
    command = (sys.executable, "-I", "-m", "manager", "secrets", "set", name, "--stdin", "--json")
    pipe, nowhere = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=nowhere, stderr=nowhere)
    except OSError:
        return False
    await process.communicate(key.encode())
    return process.returncode == 0
