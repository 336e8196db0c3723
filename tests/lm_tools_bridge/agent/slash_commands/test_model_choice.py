"""Tests which model is used where the settings name none."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.screen.plain_screen import PlainScreen
from lm_tools_bridge.agent.slash_commands.model_choice import change_model, choose_model
from support.clients.scripted_person import ScriptedPerson


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


class Person(ScriptedPerson):
    """Sees tables of the agent as notices, too."""

    def lines(self, lines: Sequence[str]) -> None:
        self.notices.extend(lines)


@pytest.mark.parametrize(
    ("answer", "model"),
    [("2", "large"), ("large", "large"), ("another", "another"), ("", "small"), (None, "small")],
)
async def test_another_model_is_picked_of_those_that_are_listed(answer: str | None, model: str) -> None:
    person: Any = Person(answer)
    assert await change_model(person, "ollama", ("small", "large"), "small") == model
    assert person.notices == ["Models of ollama:", "  1. small", "  2. large"]
    assert person.prompts == ["Model (number or name; Enter: small): "]


async def test_a_provider_without_a_list_keeps_its_model() -> None:
    person: Any = Person()
    assert await change_model(person, "azure", (), "gpt") == "gpt"
    assert person.notices == ["azure lists no models; name one with /model NAME"]
    assert person.prompts == []
