"""What the user's file says of the visibility of tools in one project."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.projects.config_home import ConfigHome
from workspace_server.config.model import VisibilityChoices

NOTHING = VisibilityChoices()


@pytest.fixture
def home(tmp_path: Path) -> ConfigHome:
    return ConfigHome(tmp_path)


def test_a_choice_is_for_the_project_that_it_names(home: ConfigHome) -> None:
    home.user(
        f"[visibility.'{home.root}'.tools]\ngreet = 'always'\n"
        f"[visibility.'{home.root}'.sources]\n'stdio:gh' = 'ondemand'\n"
        "[visibility.'/elsewhere'.tools]\ngreet = 'ondemand'\nother = 'always'\n"
    )
    found = home.current()
    assert found.visibility == VisibilityChoices({"greet": "always"}, {"stdio:gh": "ondemand"})
    assert found.issues == ()


def test_a_choice_for_a_tool_wins_over_that_for_its_source() -> None:
    choices = VisibilityChoices({"greet": "always"}, {"script": "ondemand"})
    assert choices.choice("greet", "script") == "always"
    assert choices.choice("other", "script") == "ondemand"
    assert choices.choice("other", "builtin") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (".tools]\ngreet = 'alwyas'", "did you mean always?; it is ignored"),
        (".tools]\ngreet = ['always']", "must be one of native, ondemand, always"),
        ("]\ntools = 'always'", '"visibility.tools" must be a table'),
        ("]\ntool = {}", "unknown: tool; it is ignored; did you mean tools?"),
    ],
)
def test_what_cannot_be_read_is_ignored_with_a_warning(home: ConfigHome, text: str, said: str) -> None:
    home.user(f"[visibility.'{home.root}'{text}\n")
    found = home.current()
    assert found.visibility == NOTHING
    assert [issue.level for issue in found.issues] == ["warning"]
    assert said in found.issues[0].message


@pytest.mark.parametrize("value", ["'always'", "[]", "1"])
def test_a_project_that_is_no_table_is_ignored_with_a_warning(home: ConfigHome, value: str) -> None:
    home.user(f"[visibility]\n'{home.root}' = {value}\n")
    assert home.current().visibility == NOTHING
    assert home.codes() == ["CONFIG_INVALID_VALUE"]


def test_a_project_cannot_choose_for_the_user(home: ConfigHome) -> None:
    home.workspace(f"[visibility.'{home.root}'.tools]\ngreet = 'always'\n")
    assert home.current().visibility == NOTHING
    assert home.codes() == ["CONFIG_KEY_REFUSED"]
