"""Chooses a model where the settings name none: the only one, or the one that the person picks of a list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lm_tools_bridge.agent.interaction import Question, Tone
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.screen.screen import Screen
from lm_tools_bridge.agent.settings_file import NotEditable, save
from lm_tools_bridge.agent.slash_commands.tool_menu import chosen
from lm_tools_bridge.machine.private_files import LockTimeout, UnsafePathError

SHOWN: Final = 30
"""Models of a list that are shown; remote providers have hundreds."""
_YES: Final = frozenset({"", "y", "yes"})
_NAME_ONE: Final = "name one with --model, or save one with: lmtb agent config"


async def choose_model(screen: Screen, provider: str, models: Sequence[str], config_file: Path) -> str:
    """The model to use from now on; asked for if there are several, and then saved if that is wanted.

    Raises:
        ProviderFailure: there is none, or nobody chose one.
    """
    if not models:
        pull = "get one with: ollama pull qwen3; or " if provider == "ollama" else ""
        raise ProviderFailure(provider, "no model is chosen, and it lists none", f"{pull}{_NAME_ONE}")
    if len(models) == 1:
        screen.notice(f"{provider}: uses {models[0]}, its only model")
        return models[0]
    show_models(screen, provider, models)
    answer = await screen.ask(Question("Model (number or name): "))
    if answer is None or not answer.strip():
        raise ProviderFailure(provider, f"no model is chosen; it has {len(models)}", _NAME_ONE)
    model = chosen(answer.strip(), models)
    if model is None:
        raise ProviderFailure(provider, f"it has no model {answer.strip()}", _NAME_ONE)
    await _offer_to_save(screen, provider, model, config_file)
    return model


def show_models(screen: Screen, provider: str, models: Sequence[str]) -> None:
    """List models by numbers."""
    rows = [f"{number:>3}. {name}" for number, name in enumerate(models[:SHOWN], start=1)]
    more = len(models) - SHOWN
    screen.lines([f"Models of {provider}:", *rows, *([f"     and {more} more"] if more > 0 else [])])


async def change_model(screen: Screen, provider: str, models: Sequence[str], current: str) -> str:
    """The model that the person picks of a list, or the current one; other names are taken as they are."""
    if not models:
        screen.notice(f"{provider} lists no models; name one with /model NAME")
        return current
    show_models(screen, provider, models)
    keeps = f"Enter: {current}" if current else "Enter: none"
    answer = (await screen.ask(Question(f"Model (number or name; {keeps}): ")) or "").strip()
    return picked(answer, models) or current


def picked(answer: str, models: Sequence[str]) -> str:
    """The model that an answer means: a number of the list, a name of it, or any other name."""
    return chosen(answer, models) or answer if answer else ""


async def _offer_to_save(screen: Screen, provider: str, model: str, config_file: Path) -> None:
    answer = await screen.ask(Question("Use it in later sessions too? ([y]/n): "))
    if answer is None or answer.strip().lower() not in _YES:
        return
    try:
        await asyncio.to_thread(save, config_file, {("model", provider): model})
    except (NotEditable, LockTimeout, UnsafePathError, OSError) as error:
        screen.notice(f"not saved: {error}", Tone.ERROR)
    else:
        screen.notice(f"model.{provider} = {model}, saved")
