"""The page as HTML: hostile names stay text, and nothing is inline that a policy would have to allow."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lm_tools_bridge.page.overview_fragments import browser_name, page, parts
from lm_tools_bridge.page.overview_view import MOST_ENDED, MOST_NEEDS, MOST_ROWS, page_view
from support.http.html_elements import HOSTILE, Elements


def status(name: str) -> dict[str, Any]:
    source = {"id": name, "kind": "stdio", "state": name, "error": name}
    failed = {"id": name, "kind": "stdio", "state": "failed", "error": name}
    server = {
        "workspace": name, "root": name, "state": name, "pid": 1, "sources": [source, failed],
        "issues": [{"code": "X", "level": "error", "message": name, "details": name}],
    }  # fmt: skip
    looping = {"id": "other", "root": "/o", "state": "crash_looping", "lastError": name, "stderrTail": [name]}
    client = {
        "name": name,
        "version": name,
        "state": name,
        "workspace": name,
        "source": name,
        "ownServers": [],
    }
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


def test_what_is_left_out_is_counted_with_the_command_that_shows_it() -> None:
    servers = [
        {"workspace": f"w{number}", "root": f"/w{number}", "pid": number, "state": "unhealthy"}
        for number in range(MOST_ROWS + 2)
    ]
    clients = [{"name": "a", "state": "connected", "workspace": "w1"} for _ in range(MOST_ROWS + 3)]
    found = page_view({"instanceDetails": servers, "clientDetails": clients}, {})
    shown = {name: Elements(html).text for name, html in parts(found).items()}
    assert f"{MOST_ROWS + 2 - MOST_NEEDS} more: lmtb status" in shown["needs"]
    assert "2 more: lmtb workspaces" in shown["projects"]
    assert "3 more: lmtb clients" in shown["clients"]


def test_a_project_has_its_connected_clients_and_its_share_of_a_processor() -> None:
    servers = [{"workspace": "app-1", "root": "/app", "pid": 7}, {"workspace": "b-2", "root": "/b", "pid": 8}]
    states = ("connected", "connected", "idle")
    clients = [{"name": "a", "state": state, "workspace": "app-1"} for state in states]
    view = page_view({"instanceDetails": servers, "clientDetails": clients}, {}, None, {"app-1": 12})
    html = parts(view)["projects"]
    assert '<td data-head="Clients" class="figure">2</td>' in html
    assert '<td data-head="CPU" class="figure">12 %</td>' in html
    assert html.count('<td data-head="CPU" class="figure">–</td>') == 1


def test_what_a_person_asks_first_comes_first() -> None:
    first = ["connections", "savings", "needs"]
    names = [*first, "projects", "calls", "clients", "manager", "health", "browsers"]
    assert list(parts(page_view({}, {}))) == names


_LIKE = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36"
)


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (_LIKE, "Chrome 156 on Linux"),
        (f"{_LIKE} Edg/156.0.1", "Edge 156 on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox 140 on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) Version/19.0 Safari/605.1", "Safari 19 on macOS"),
        ("curl/8", "curl/8"),
        ("", ""),
    ],
)
def test_a_browser_has_its_name_and_system(user_agent: str, name: str) -> None:
    assert browser_name(user_agent) == name
