"""Settings that may differ by client: every form in which they can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from manager.configuration.client_overrides import by_client, seconds, sees
from manager.configuration.settings import ConfigurationError, Settings, load_settings


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ('""', {}),
        ("20", {"*": 20.0}),
        ("1.5", {"*": 1.5}),
        ('"20"', {"*": 20.0}),
        ('"My-Agent=20, other = 1.5,"', {"my-agent": 20.0, "other": 1.5}),
        ("{my-agent = 20, other = '1.5'}", {"my-agent": 20.0, "other": 1.5}),
        ("{'*' = 4}", {"*": 4.0}),
    ],
)
def test_seconds_by_client_can_be_a_number_a_text_or_a_table(
    tmp_path: Path, written: str, found: dict[str, float]
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"first_list_s = {written}\n")
    assert by_client(load_settings(file, {}, {}).first_list_s, seconds) == found


@pytest.mark.parametrize("written", ["7", "my-agent=7"])
def test_the_environment_takes_a_number_as_well(tmp_path: Path, written: str) -> None:
    settings = load_settings(tmp_path / "none.toml", {"LMTB_FIRST_LIST_S": written}, {})
    assert list(by_client(settings.first_list_s, seconds).values()) == [7.0]


@pytest.mark.parametrize(
    "written", ['"soon"', '"a=soon"', '"a="', '"=3"', "true", "[3]", "-1", "nan", "{a = true}", "{'a,b' = 1}"]
)
def test_an_invalid_value_is_refused_with_the_name_and_place_of_the_setting(
    tmp_path: Path, written: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"first_list_s = {written}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(file, {}, {})
    assert str(caught.value).startswith(f"first_list_s ({file}, line 1): ")


def test_an_error_shows_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="write 20 for all clients, or my-agent=20, other=5"):
        load_settings(tmp_path / "none.toml", {"LMTB_FIRST_LIST_S": "soon"}, {})


def test_what_a_model_sees_is_one_of_three_words(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "none.toml", {"LMTB_MODEL_SEES": "a=both, b=text"}, {})
    assert by_client(settings.model_sees, sees) == {"a": "both", "b": "text"}
    with pytest.raises(ConfigurationError, match="'pictures' is none of structured, text, both"):
        load_settings(tmp_path / "none.toml", {"LMTB_MODEL_SEES": "a=pictures"}, {})


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("LMTB_HEARS_LIST_CHANGED", "'sometimes' is neither always nor never"),
        ("LMTB_HAS_FILE_TOOLS", "'sometimes' is neither yes nor no"),
        ("LMTB_OWN_FILES", "'sometimes' is none of .mcp.json, .vscode/mcp.json, .cursor/mcp.json"),
    ],
)
def test_other_words_are_refused(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        load_settings(tmp_path / "none.toml", {setting: "a=sometimes"}, {})


def test_without_a_value_nothing_is_set() -> None:
    assert by_client(Settings().first_list_s, seconds) == {}
