"""Tests which model is used where the settings name none."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from agent.model_events import ProviderFailure
from agent.screen.plain_screen import PlainScreen
from agent.slash_commands.model_choice import choose_model


async def chosen_without_a_person(models: tuple[str, ...], provider: str = "ollama") -> str:
    out = io.StringIO()
    return await choose_model(PlainScreen(out, out, None, asks=False), provider, models, Path("none.toml"))


async def test_the_only_model_needs_no_question() -> None:
    assert await chosen_without_a_person(("one",)) == "one"


async def test_without_a_person_a_choice_names_what_to_do() -> None:
    with pytest.raises(ProviderFailure, match=r"it has 2; name one with --model, or .* lmtb agent config"):
        await chosen_without_a_person(("one", "two"))


@pytest.mark.parametrize(("provider", "step"), [("ollama", "ollama pull"), ("openai", "--model")])
async def test_a_server_without_models_is_told_with_the_next_step(provider: str, step: str) -> None:
    with pytest.raises(ProviderFailure, match=step):
        await chosen_without_a_person((), provider)
