"""Where the keys of providers are found: names, order, and that untrusted places give none."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.agent.key_sources import DotEnvKeys, EnvironmentKeys, variables
from lm_tools_bridge.agent.provider_keys import (
    Key,
    KeyFound,
    KeyLookup,
    KeySourceFailed,
    KeyWish,
    StoreReadOnly,
    hint_for,
    wish_for,
)


@pytest.mark.parametrize(
    ("provider", "names", "stored"),
    [
        ("openai", ("OPENAI_API_KEY",), ("openai",)),
        ("OpenRouter", ("OPENROUTER_API_KEY",), ("openrouter",)),
        ("my-server", ("MY_SERVER_API_KEY",), ("my-server",)),
        ("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("gemini", "google")),
        ("google", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("google", "gemini")),
        ("azure", ("AZURE_API_KEY", "AZURE_OPENAI_API_KEY"), ("azure",)),
        ("ollama", ("OLLAMA_API_KEY",), ()),
    ],
)
def test_each_provider_has_its_names(provider: str, names: tuple[str, ...], stored: tuple[str, ...]) -> None:
    assert wish_for(provider) == KeyWish(names, stored)


def test_a_configured_name_takes_the_place_of_all_others() -> None:
    assert wish_for("gemini", "WORK_KEY") == KeyWish(("WORK_KEY",), ("WORK_KEY",))


def test_the_hint_names_variable_and_command() -> None:
    assert hint_for(wish_for("gemini")) == "set GEMINI_API_KEY, or store it with: lmtb secrets set gemini"
    assert hint_for(wish_for("ollama")) == "set OLLAMA_API_KEY"


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({"GEMINI_API_KEY": "a", "GOOGLE_API_KEY": "b"}, "a"),
        ({"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "b\n"}, "b"),
        ({"OPENAI_API_KEY": "c"}, None),
    ],
)
async def test_variables_count_in_their_order_unless_empty(
    environ: dict[str, str], found: str | None
) -> None:
    key = await EnvironmentKeys(environ).find(wish_for("gemini"))
    assert (key and key.value) == found


async def test_a_key_tells_its_source_and_the_place_there() -> None:
    key = await EnvironmentKeys({"AZURE_OPENAI_API_KEY": "v"}).find(wish_for("azure"))
    assert key == Key("v", "environment", "AZURE_OPENAI_API_KEY")


@pytest.mark.parametrize("source", [EnvironmentKeys({}), DotEnvKeys(Path("/nowhere/.env"), trusted=True)])
async def test_nothing_can_be_stored_in_the_environment(source: EnvironmentKeys | DotEnvKeys) -> None:
    with pytest.raises(StoreReadOnly, match=r"^Store is read-only$"):
        await source.store("openai", "v")


async def test_the_env_file_of_a_project_counts_only_if_the_project_is_trusted(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("OPENAI_API_KEY=planted\n")
    assert await DotEnvKeys(file, trusted=False).find(wish_for("openai")) is None
    assert await DotEnvKeys(file, trusted=True).find(wish_for("openai")) == Key(
        "planted", "dotenv", f"OPENAI_API_KEY in {file}"
    )
    assert await DotEnvKeys(tmp_path / "missing", trusted=True).find(wish_for("openai")) is None


async def test_an_env_file_that_is_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("OPENAI_API_KEY=x\n")
    (tmp_path / ".env").symlink_to(tmp_path / "real")
    with pytest.raises(KeySourceFailed, match="cannot be read"):
        await DotEnvKeys(tmp_path / ".env", trusted=True).find(wish_for("openai"))


def test_the_forms_of_an_env_file() -> None:
    text = "# A=1\nB=2\n export C = 3 \nD='4 # x'\nE=\"5\" # y\nF=6 # z\nG=$B\nnot a line\nH=\n"
    assert variables(text) == {"B": "2", "C": "3", "D": "4 # x", "E": "5", "F": "6", "G": "$B", "H": ""}


class Place:
    """A place that has a key, none, or cannot be read."""

    def __init__(self, value: str | None = None, problem: str = "") -> None:
        self.value, self.problem, self.asked = value, problem, 0

    async def find(self, wish: KeyWish) -> Key | None:
        self.asked += 1
        if self.problem:
            raise KeySourceFailed(self.problem)
        return Key(self.value, "store", "x") if self.value else None

    async def store(self, name: str, value: str) -> None:
        raise StoreReadOnly


async def test_the_first_place_of_the_list_that_has_a_key_wins() -> None:
    places = [Place(), Place("first-of-two"), Place("second-of-two")]
    assert await KeyLookup(places).find(wish_for("openai")) == KeyFound(Key("first-of-two", "store", "x"))
    assert [one.asked for one in places] == [1, 1, 0]


async def test_a_place_that_cannot_be_read_is_told_and_passed_over() -> None:
    found = await KeyLookup([Place(problem="it is locked"), Place("the-value")]).find(wish_for("openai"))
    assert found.key is not None
    assert found.problems == ("it is locked",)
    assert await KeyLookup([Place(problem="it is locked")]).find(wish_for("openai")) == KeyFound(
        None, ("it is locked",)
    )
