"""The step by step configuration shows what an empty answer means, and takes no answer that it does not know."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from agent.command_line import wizard
from agent.settings.file import load
from support.clients.scripted_person import ScriptedPerson


async def configured(folder: Path, *answers: str | None) -> tuple[int, ScriptedPerson]:
    person: Any = ScriptedPerson(*answers)
    arguments: Any = argparse.Namespace(imported=None, json=False)
    code = await wizard.configure(person, folder / "config.toml", arguments)
    return code, person


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


async def test_an_empty_answer_means_what_the_prompt_shows(tmp_path: Path) -> None:
    code, person = await configured(tmp_path, "", "qwen3", "")
    assert code == 0
    assert person.prompts == [
        "Provider [ollama]: ",
        "Model of ollama: ",
        "Ask before calls (yes, no) [yes]: ",
    ]
    assert [one.initial for one in person.questions] == ["", "", ""]
    settings = load(tmp_path / "config.toml").settings
    assert (settings.default_provider, settings.model) == ("ollama", {"ollama": "qwen3"})
    assert settings.human_in_loop is True


async def test_answers_of_before_are_offered_again(tmp_path: Path) -> None:
    await configured(tmp_path, "openai", "big", "no")
    _, person = await configured(tmp_path, "", "", "")
    assert person.prompts == [
        "Provider [openai]: ",
        "Model of openai [big]: ",
        "Ask before calls (yes, no) [no]: ",
    ]
    settings = load(tmp_path / "config.toml").settings
    assert (settings.model, settings.human_in_loop) == ({"openai": "big"}, False)


async def test_an_unknown_answer_is_asked_for_again(tmp_path: Path) -> None:
    code, person = await configured(tmp_path, "olama", "ollama", "m", "maybe", "n")
    assert code == 0
    assert "there is no provider olama; did you mean ollama?" in person.notices
    assert "enter yes or no" in person.notices
    assert load(tmp_path / "config.toml").settings.human_in_loop is False


@pytest.mark.parametrize("answers", [(None,), ("ollama", None), ("ollama", "m", None)])
async def test_the_end_of_input_changes_nothing(tmp_path: Path, answers: tuple[str | None, ...]) -> None:
    code, _ = await configured(tmp_path, *answers)
    assert code == 1
    assert not (tmp_path / "config.toml").exists()
