"""The step by step configuration shows what an empty answer means, and takes no answer that it does not know."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.agent.command_line import wizard
from lm_tools_bridge.agent.command_line.wizard import NotReadable, read_ollmcpc
from lm_tools_bridge.agent.messages import ProviderFailure
from lm_tools_bridge.agent.settings_file import StdioServer, load
from support.clients.scripted_person import ScriptedPerson


class Person(ScriptedPerson):
    """Sees tables of the agent as notices, too."""

    def lines(self, lines: Sequence[str]) -> None:
        self.notices.extend(lines)


async def configured(
    folder: Path, *answers: str | None, models: Sequence[str] | ProviderFailure = ()
) -> tuple[int, Person]:
    person: Any = Person(*answers)
    arguments: Any = argparse.Namespace(imported=None, json=False)

    async def models_of(name: str) -> Sequence[str]:
        if isinstance(models, ProviderFailure):
            raise models
        return models

    code = await wizard.configure(person, folder / "config.toml", arguments, models_of)
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


@pytest.mark.parametrize("answer", ["2", "large"])
async def test_the_models_of_the_provider_are_offered(tmp_path: Path, answer: str) -> None:
    code, person = await configured(tmp_path, "", answer, "", models=["small", "large"])
    assert code == 0
    assert "  2. large" in person.notices
    assert load(tmp_path / "config.toml").settings.model == {"ollama": "large"}


async def test_a_model_can_be_named_while_its_provider_is_not_there(tmp_path: Path) -> None:
    failure = ProviderFailure("ollama", "nothing listens at http://localhost:11434", "start it")
    code, person = await configured(tmp_path, "", "qwen3", "", models=failure)
    assert code == 0
    assert "its models cannot be listed now: nothing listens at http://localhost:11434" in person.notices
    assert load(tmp_path / "config.toml").settings.model == {"ollama": "qwen3"}


OLD = {"default_provider": "gemini", "gemini_model": "flash", "human_in_loop": False}


@pytest.mark.parametrize("answer", ["", "y"])
async def test_settings_of_ollmcpc_are_offered_before_there_are_others(tmp_path: Path, answer: str) -> None:
    (tmp_path / ".ollmcpc.json").write_text(json.dumps(OLD))
    code, person = await configured(tmp_path, answer)
    assert (code, person.prompts) == (0, [f"Take over {tmp_path / '.ollmcpc.json'}? ([y]/n): "])
    settings = load(tmp_path / "config.toml").settings
    assert (settings.default_provider, settings.model, settings.human_in_loop) == (
        "gemini", {"gemini": "flash"}, False
    )  # fmt: skip


async def test_who_declines_the_offer_is_asked_the_questions(tmp_path: Path) -> None:
    (tmp_path / ".ollmcpc.json").write_text(json.dumps(OLD))
    code, person = await configured(tmp_path, "n", "", "qwen3", "")
    assert (code, person.prompts[1]) == (0, "Provider [ollama]: ")
    assert load(tmp_path / "config.toml").settings.model == {"ollama": "qwen3"}


async def test_settings_that_are_there_are_never_replaced_by_older_ones(tmp_path: Path) -> None:
    (tmp_path / ".ollmcpc.json").write_text(json.dumps(OLD))
    (tmp_path / "config.toml").write_text("[agent]\n")
    _, person = await configured(tmp_path, None)
    assert person.prompts == ["Provider [ollama]: "]


def test_settings_servers_and_key_are_read() -> None:
    found = read_ollmcpc(
        json.dumps(
            {
                "default_provider": "Gemini",
                "ollama_model": "qwen",
                "gemini_model": "flash",
                "gemini_api_key": "canary",
                "human_in_loop": False,
                "servers": [
                    {"name": "files", "command": "npx -y 'my server'", "enabled": True},
                    {"name": "off", "command": "x", "enabled": False},
                ],
            }
        ).encode()
    )
    assert found.changes == {
        ("default_provider",): "gemini",
        ("model", "ollama"): "qwen",
        ("model", "gemini"): "flash",
        ("human_in_loop",): False,
    }
    assert found.servers == (
        StdioServer("files", ("npx", "-y", "my server"), True),
        StdioServer("off", ("x",), False),
    )
    assert found.keys == {"gemini": "canary"}
    assert "canary" not in repr(found)


def test_asking_is_not_switched_off_by_a_member_of_a_server() -> None:
    entry = {"name": "x", "command": "y", "human_in_loop": False}
    assert read_ollmcpc(json.dumps({"servers": [entry]}).encode()).changes == {}


@pytest.mark.parametrize(
    "entry", [{"command": "x"}, {"name": "x"}, {"name": "", "command": "x"}, {"name": "x", "command": " "}, 3,
              {"name": "x", "command": "'open"}],
)  # fmt: skip
def test_entries_that_cannot_be_used_are_skipped_with_a_warning(entry: object) -> None:
    found = read_ollmcpc(json.dumps({"servers": [entry, {"name": "good", "command": "run"}]}).encode())
    assert [server.namespace for server in found.servers] == ["good"]
    assert len(found.warnings) == 1


def test_a_word_for_true_or_false_is_not_guessed() -> None:
    found = read_ollmcpc(b'{"human_in_loop": "false"}')
    assert found.changes == {}
    assert found.warnings


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_other_files_are_refused(content: bytes) -> None:
    with pytest.raises(NotReadable):
        read_ollmcpc(content)
