"""Settings of the user and of the workspace are merged by precedence and trust."""

from __future__ import annotations

import pytest

from support.projects.config_home import ConfigHome
from workspace_server.config.combine import apply_widening
from workspace_server.config.model import PolicyDeltas

LISTS = '[tools]\nexposedDelta = ["x"]\nunexposedDelta = ["u"]\nenabledDelta = ["e"]\ndisabledDelta = ["d"]\n'
ALL = PolicyDeltas(("x",), ("u",), ("e",), ("d",))
USE = "useWorkspaceSettings = true\n"


def test_the_users_settings_apply_by_default(home: ConfigHome) -> None:
    home.user(LISTS)
    home.workspace('[tools]\ndisabledDelta = ["w"]\n')
    found = home.current()
    assert found.deltas == ALL
    assert found.widening == PolicyDeltas()
    assert found.policy_file == home.user_file
    assert home.codes() == ["CONFIG_SCOPE_UNUSED"]


def test_an_untrusted_workspace_can_only_restrict_until_it_is_trusted(home: ConfigHome) -> None:
    home.workspace(USE + LISTS)
    found = home.current()
    assert found.deltas == PolicyDeltas(unexposed=("u",), disabled=("d",))
    assert found.widening == PolicyDeltas(exposed=("x",), enabled=("e",))
    assert apply_widening(found).deltas == ALL
    assert apply_widening(found).widening == PolicyDeltas()
    assert found.policy_file == home.own_file


def test_workspace_settings_do_not_show_what_the_user_hid(home: ConfigHome) -> None:
    """The workspace's scope replaces the user's only once it is trusted."""
    home.user('[tools]\ndisabledDelta = ["mine", "both"]\nenabledDelta = ["wanted", "shared"]\n')
    home.workspace(USE + '[tools]\ndisabledDelta = ["both"]\nenabledDelta = ["shared"]\n')
    found = home.current()
    assert found.deltas == PolicyDeltas(enabled=("shared",), disabled=("both", "mine"))
    assert found.widening == PolicyDeltas(disabled=("mine",))
    assert apply_widening(found).deltas == PolicyDeltas(enabled=("shared",), disabled=("both",))


@pytest.mark.parametrize("value", ['"true"', "1", "[true]"])
def test_a_scope_that_cannot_be_read_hides_what_either_scope_hides(home: ConfigHome, value: str) -> None:
    home.user('[tools]\ndisabledDelta = ["mine"]\nenabledDelta = ["wanted", "shared"]\n')
    home.workspace(
        f"useWorkspaceSettings = {value}\n"
        '[tools]\ndisabledDelta = ["theirs"]\nunexposedDelta = ["u"]\nenabledDelta = ["shared", "more"]\n'
    )
    found = home.current()
    assert found.deltas == PolicyDeltas(unexposed=("u",), enabled=("shared",), disabled=("mine", "theirs"))
    assert apply_widening(found) is found, "there is nothing to trust"
    (issue,) = found.issues
    assert (issue.level, issue.code) == ("error", "CONFIG_INVALID_VALUE")
    assert "only tools that both your settings and the project's offer" in issue.message


@pytest.mark.parametrize("key", ["useWorkspaceSetting", "useworkspacesettings"])
def test_the_same_holds_for_a_misspelt_scope(home: ConfigHome, key: str) -> None:
    home.workspace(f'{key} = true\n[tools]\ndisabledDelta = ["d"]\n')
    assert home.current().deltas == PolicyDeltas(disabled=("d",))
    (issue,) = home.current().issues
    assert f'"{key}" is unknown; did you mean useWorkspaceSettings?' in issue.message


def test_a_misspelt_scope_that_says_false_changes_nothing(home: ConfigHome) -> None:
    home.workspace('useWorkspaceSetting = false\n[tools]\ndisabledDelta = ["d"]\n')
    assert home.current().deltas == PolicyDeltas()


def test_the_same_holds_for_an_editors_file(home: ConfigHome) -> None:
    settings = {"lmToolsBridge.useWorkspaceSettings": "yes", "lmToolsBridge.tools.disabledDelta": ["d"]}
    home.put(".vscode/settings.json", settings)
    assert home.current().deltas == PolicyDeltas(disabled=("d",))


def test_schema_defaults_of_a_workspace_are_pending(home: ConfigHome) -> None:
    home.user('[tools]\nschemaDefaults = ["a.b=1"]\n')
    home.workspace(USE + '[tools]\nschemaDefaults = [\'a.b={"x,y",2}\', "no", "t.p=[1]"]\n')
    found = home.current()
    assert found.schema_defaults == (("a", "b", 1),)
    assert apply_widening(found).schema_defaults == (("a", "b", ["x,y", 2]),)
    assert home.codes() == ["CONFIG_SCHEMA_DEFAULT", "CONFIG_SCHEMA_DEFAULT"]


def test_settings_that_only_restrict_are_not_pending(home: ConfigHome) -> None:
    home.user(LISTS)
    found = home.current()
    assert apply_widening(found) is found


@pytest.mark.parametrize("project", [False, True])
def test_settings_are_read_from_an_editors_files(home: ConfigHome, project: bool) -> None:
    """The project file if there is one, else the folder."""
    ours = {
        "lmToolsBridge.useWorkspaceSettings": True,
        "lmToolsBridge.tools.disabledDelta": ["d"],
        "editor.x": 1,
    }
    other = {"lmToolsBridge.useWorkspaceSettings": True, "lmToolsBridge.tools.disabledDelta": ["other"]}
    if project:
        home.put("a.code-workspace", {"folders": [], "settings": ours})
        home.put(".vscode/settings.json", other)
    else:
        home.put(".vscode/settings.json", ours)
    assert home.current().deltas == PolicyDeltas(disabled=("d",))
    assert home.codes() == []


def test_a_code_workspace_file_is_used_once_it_appears(home: ConfigHome) -> None:
    home.put(
        ".vscode/settings.json", {"lmToolsBridge.useWorkspaceSettings": True, "lmToolsBridge.debug": "simple"}
    )
    assert home.current().debug == "simple"
    file = home.put("a.code-workspace", '{"settings": {"lmToolsBridge.useWorkspaceSettings": true,}}')
    assert home.current().debug == "off"
    file.unlink()
    assert home.current().debug == "simple"


def test_workspace_toml_takes_precedence_over_editor_settings(home: ConfigHome) -> None:
    home.put(
        ".vscode/settings.json",
        {
            "lmToolsBridge.useWorkspaceSettings": True,
            "lmToolsBridge.tools.disabledDelta": ["theirs"],
            "lmToolsBridge.tools.unexposedDelta": ["kept"],
        },
    )
    home.workspace('[tools]\ndisabledDelta = ["ours"]\n')
    assert home.current().deltas == PolicyDeltas(unexposed=("kept",), disabled=("ours",))
    (issue,) = home.current().issues
    assert issue.code == "CONFIG_SETTINGS_DISAGREE"
    assert "tools.disabledDelta" in issue.message


def test_misplaced_keys_are_removed_from_the_users_file(home: ConfigHome) -> None:
    home.user(USE + '# mine\n[tools]\nenabled = ["x"]\nblacklist = ["y"]\nblacklistPatterns = "z"\n')
    found = home.current()
    assert home.user_file.read_text() == "# mine\n"
    (issue,) = found.issues
    assert (issue.level, issue.code) == ("warning", "CONFIG_KEY_REMOVED")
    assert "useWorkspaceSettings" in issue.message
    assert home.current() is found


def test_obsolete_keys_of_a_workspace_are_reported_once(home: ConfigHome) -> None:
    file = home.workspace('[tools]\nenabled = ["x"]\nblacklist = ["y"]\n')
    assert home.codes() == ["CONFIG_OBSOLETE_KEY"]
    assert "blacklist" in file.read_text()


def test_invalid_grouping_rules_are_reported_and_valid_ones_used(home: ConfigHome) -> None:
    rules = [
        {"id": "gh", "label": "GitHub", "pattern": "^GH__", "flags": "gi"},
        {"id": "gh", "label": "again", "pattern": "x"},
        {"id": "no", "label": "no pattern"},
        {"id": "bad", "label": "b", "pattern": "("},
        {"id": "long", "label": "l", "pattern": "a" * 257},
        "text",
    ]
    home.put(
        ".vscode/settings.json",
        {"lmToolsBridge.useWorkspaceSettings": True, "lmToolsBridge.tools.groupingRules": rules},
    )
    (rule,) = home.current().grouping_rules
    assert (rule.id, rule.flags) == ("gh", "i")
    assert home.codes() == ["CONFIG_GROUPING_RULE"] * 6
