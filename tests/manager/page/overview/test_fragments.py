"""The page as HTML: hostile names stay text, and nothing is inline that a policy would have to allow."""

from __future__ import annotations

import re
from typing import Any

import pytest

from manager.page.overview.fragments import page, parts
from manager.page.overview.view import MOST_ENDED, page_view
from support.http.html_elements import HOSTILE, Elements


def status(name: str) -> dict[str, Any]:
    source = {"id": name, "kind": "stdio", "state": name, "error": name}
    failed = {"id": name, "kind": "stdio", "state": "failed", "error": name}
    server = {
        "workspace": name, "root": name, "state": name, "pid": 1, "sources": [source, failed],
        "issues": [{"code": "X", "level": "error", "message": name, "details": name}],
    }  # fmt: skip
    looping = {"id": "other", "root": "/o", "state": "crash_looping", "lastError": name, "stderrTail": [name]}
    client = {"name": name, "version": name, "state": name, "workspace": name, "source": name, "ownFiles": []}
    return {
        "state": name, "version": name, "address": name, "degraded": [name], "installation": {"state": "changed"},
        "workspaceDetails": [looping], "instanceDetails": [server], "clientDetails": [client],
    }  # fmt: skip


def shown(name: str) -> str:
    calls = {
        name: {
            "running": [{"tool": name, "client": name, "ms": 1.0}],
            "ended": [{"tool": name, "outcome": name}],
        }
    }
    return page(page_view(status(name), calls))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_make_no_element_and_no_attribute(name: str) -> None:
    tame, hostile = Elements(shown("tame")), Elements(shown(name))
    assert hostile.tags == tame.tags
    assert [key for key, _ in hostile.attributes] == [key for key, _ in tame.attributes]


def test_hostile_names_are_shown_as_they_are() -> None:
    assert HOSTILE[0] in Elements(shown(HOSTILE[0])).text


def test_control_characters_are_shown_escaped() -> None:
    assert not re.search("[\x1b\u202e]", Elements(shown(HOSTILE[-1])).text)


def test_last_words_are_on_lines_of_their_own() -> None:
    looping = {"id": "app", "root": "/a", "state": "crash_looping", "stderrTail": ["first", "second"]}
    assert "<pre>first\nsecond</pre>" in page(page_view({"workspaceDetails": [looping]}, {}))


def test_nothing_is_inline() -> None:
    elements = Elements(shown("tame"))
    names = {key for key, _ in elements.attributes}
    assert not {name for name in names if name == "style" or name.startswith("on")}
    assert "style" not in elements.tags
    assert re.search(r"<script [^>]*></script>", shown("tame"))


def test_every_button_waits_for_a_session() -> None:
    acting = re.findall(r"<button[^>]*data-action[^>]*>", shown("tame"))
    assert acting
    assert all("disabled" in tag for tag in acting)


def test_a_page_without_anything_says_what_comes_next() -> None:
    text = Elements(page(page_view({}, {}))).text
    assert "Nothing. All is well." in text
    assert "lmtb client add" in text


def test_parts_at_rest_do_not_change() -> None:
    now = {**status("tame"), "uptimeSec": 61, "rssBytes": 50_000_001}
    later = {**now, "uptimeSec": 62, "rssBytes": 50_000_002}
    assert parts(page_view(now, {})) == parts(page_view(later, {}))


def test_few_calls_that_ended_are_shown_below_those_that_run() -> None:
    ended = [{"tool": f"ended-{number}", "outcome": "ok", "ageSec": number} for number in range(50)]
    calls = {"app": {"running": [{"tool": "long", "ms": 5000}], "ended": ended}}
    shown = [row["tool"] for row in page_view({}, calls).calls]
    assert shown == ["long", *(f"ended-{number}" for number in range(MOST_ENDED))]
