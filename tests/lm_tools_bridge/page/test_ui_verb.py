"""The verb ui: the address of the page, and the browsers that may act."""

from __future__ import annotations

import json
import webbrowser
from typing import Any

import pytest

URL = "http://127.0.0.1:47100/#ticket=secret"


@pytest.fixture
def page(control: Any) -> Any:
    control.say("POST /page/ticket", {"ok": True, "url": URL, "address": "http://127.0.0.1:47100/"})
    return control


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a browser was opened with."""
    found: list[str] = []

    def browse(url: str) -> bool:
        found.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", browse)
    return found


def test_a_browser_is_opened_and_the_ticket_is_not_printed(
    page: Any, run: Any, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    result = run("ui")
    assert opened == [URL]
    assert "secret" not in result.output
    assert "http://127.0.0.1:47100/" in result.output


def test_without_a_display_the_address_is_printed(page: Any, run: Any, opened: list[str]) -> None:
    assert run("ui").output.strip() == URL
    assert opened == []


@pytest.mark.parametrize("option", ["--print", "--json"])
def test_no_browser_is_opened_where_only_the_address_is_wanted(
    page: Any, run: Any, opened: list[str], monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert URL in run("ui", option).output
    assert opened == []


def test_a_browser_that_cannot_be_opened_leaves_the_address(
    page: Any, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert run("ui").output.strip() == URL


def test_browsers_that_may_act_are_listed_safely(control: Any, run: Any) -> None:
    control.say("GET /page/sessions", {"ok": True, "sessions": [{"number": 3, "browser": "Fire\x1b[31mfox"}]})
    output = run("ui", "--list").output
    assert "3" in output
    assert "\x1b[31m" not in output


def test_without_such_browsers_the_list_says_how_to_open_one(control: Any, run: Any) -> None:
    control.say("GET /page/sessions", {"ok": True, "sessions": []})
    assert "lmtb ui" in run("ui", "--list").output


@pytest.mark.parametrize(
    ("count", "text"), [(0, "no browser could act"), (1, "ended 1 session"), (2, "ended 2 sessions")]
)
def test_revoking_says_how_many_sessions_ended(control: Any, run: Any, count: int, text: str) -> None:
    control.say("POST /page/revoke", {"ok": True, "revoked": count})
    assert run("ui", "--revoke").output.strip() == text
    assert json.loads(run("ui", "--revoke", "--json").output)["revoked"] == count


def test_options_that_exclude_each_other_are_refused(control: Any, run: Any) -> None:
    assert run("ui", "--list", "--revoke").exit_code == 2


def test_without_a_manager_the_verb_says_how_to_start_one(run: Any) -> None:
    result = run("ui")
    assert result.exit_code != 0
    assert "lmtb up" in result.output


def test_one_browser_is_ended_by_its_number(run: Any, control: Any) -> None:
    control.say("POST /page/revoke", {"ok": True, "revoked": 1})
    assert run("ui", "--revoke=2").output.strip() == "ended 1 session"
    assert control.asked[-1][1] == {"number": 2}
    control.say("POST /page/revoke", {"ok": True, "revoked": 0})
    result = run("ui", "--revoke=9")
    assert result.exit_code != 0
    assert "no browser has the session 9" in result.output
    assert "lmtb ui --list" in result.output


def test_browsers_are_listed_with_their_age(run: Any, control: Any) -> None:
    one = {"number": 2, "browser": "Firefox", "openedAgeSec": 3600, "actedAgeSec": 60}
    control.say("GET /page/sessions", {"ok": True, "sessions": [one]})
    said = run("ui", "--list").output
    assert "Firefox" in said
    assert "1 h" in said
    assert "lmtb ui --revoke=SESSION" in said
