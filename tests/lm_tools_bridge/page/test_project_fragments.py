"""What a project's own page shows, and how it is rendered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lm_tools_bridge.page.project_fragments import project_page
from lm_tools_bridge.page.project_selection import (
    MOST_TOOLS,
    Project,
    find_project,
    needs_trust,
    project_view,
    waiting_for_trust,
)
from support.http.html_elements import HOSTILE, Elements

SHOP = Project("shop-1", "/home/ann/my shop", "ready", is_running=True)


def tool(name: str, **members: Any) -> dict[str, Any]:
    known = {"source": "script", "state": "callable", "listed": True, "tokens": 100, "approval": "allow"}
    said = {"visibility": "native", "visibilityOrigin": "source"}
    return {"name": name, **known, **said, **members}


def rendered(*tools: dict[str, Any], **members: Any) -> str:
    return project_page(project_view(SHOP, {"tools": list(tools), **members}, None))


def buttons(html: str) -> list[str]:
    return re.findall(r"<button[^>]*data-action[^>]*>([^<]*)</button>", html)


def test_the_cost_is_that_of_the_listed_tools() -> None:
    view = project_view(SHOP, {"tools": [tool("a"), tool("b"), tool("rare", listed=False)]}, None)
    assert (view.listed, view.tokens) == (2, 200)


def test_too_many_tools_are_counted_and_not_shown() -> None:
    html = rendered(*(tool(f"t{number:04}") for number in range(MOST_TOOLS + 3)))
    assert "<p>3 more:" in html
    assert f"t{MOST_TOOLS - 1:04}<" in html
    assert f"t{MOST_TOOLS:04}<" not in html


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (tool("t"), ["On demand", "List always", "Ask", "Deny", "Disable"]),
        (tool("t", approval="ask"), ["On demand", "List always", "Allow", "Deny", "Disable"]),
        (tool("t", approval="deny"), ["On demand", "List always", "Allow", "Ask", "Disable"]),
        (
            tool("t", visibility="ondemand", visibilityOrigin="yours"),
            ["List", "List always", "As its source says", "Ask", "Deny", "Disable"],
        ),
        (
            tool("t", visibility="always", visibilityOrigin="yours_for_source"),
            ["List", "On demand", "Ask", "Deny", "Disable"],
        ),
        (tool("t", state="hidden", reason="disabled: it is in disabledDelta"), ["Enable"]),
        (tool("t", state="hidden", reason="not exposed: its source is off by default"), []),
        (tool("t", state="pending", reason="waits for trust"), []),
    ],
)
def test_a_tool_has_the_buttons_that_have_an_effect(row: dict[str, Any], expected: list[str]) -> None:
    assert buttons(rendered(row)) == expected


def test_a_row_has_one_menu_or_none() -> None:
    rows = rendered(tool("sleep"), tool("off", state="hidden", reason="disabled: it is in disabledDelta"))
    assert re.findall(r'<summary aria-label="([^"]*)">', rows) == ["Change off", "Change sleep"]
    assert "<summary" not in rendered(tool("t", state="pending", reason="waits for trust"))


def test_the_tools_that_cost_most_are_first_and_those_in_no_list_last() -> None:
    rows = [tool("cheap", tokens=5), tool("rare", tokens=900, listed=False), tool("dear", tokens=70)]
    view = project_view(SHOP, {"tools": rows}, None)
    assert [row["name"] for row in view.tools] == ["dear", "cheap", "rare"]


def test_each_agent_has_its_own_cost_and_those_that_are_here_come_first() -> None:
    answer = {"tools": [tool("a", tokens=300)], "instructions": {"tokens": 400}}
    view = project_view(SHOP, answer, None, agents={"Codex", "Gemini CLI"})
    costs = [(cost.agent, cost.tokens, cost.how, cost.is_here) for cost in view.costs[:3]]
    assert costs[:2] == [("Codex", 65, "nothing", True), ("Gemini CLI", 700, "all", True)]
    assert costs[2][0::3] == ("Claude Code", False)
    html = project_page(view)
    assert "First request" in html
    assert "opencode, Copilot CLI" in html, "others that cost the same are one row"


def test_a_page_has_the_name_of_its_project() -> None:
    assert ">shop</h2>" in project_page(project_view(SHOP, {}, None, name="shop"))


def test_buttons_of_a_row_can_be_told_apart_by_ear() -> None:
    assert 'aria-label="Disable sleep"' in rendered(tool("sleep"))


def test_a_source_that_is_down_shows_its_last_words_and_what_helps() -> None:
    source = {"id": "stdio:db", "state": "failed", "error": "it ended", "stderr": ["no", "database"]}
    html = rendered(sources=[source])
    assert "<pre>no\ndatabase</pre>" in html
    assert "lmtb servers restart stdio:db" in html
    assert buttons(html) == ["Retry"]


def test_the_visibility_of_a_sources_tools_is_chosen_beside_it() -> None:
    source = {"id": "stdio:db", "state": "ready", "toolCount": 3}
    assert buttons(rendered(sources=[source])) == ["List", "On demand", "List always"]
    html = rendered(sources=[{**source, "visibility": "ondemand"}])
    assert "On demand (yours)" in html
    assert buttons(html) == ["List", "List always", "As its source says"]
    assert 'aria-label="List tools of stdio:db"' in html


def test_a_source_that_runs_without_tools_has_no_button() -> None:
    html = rendered(sources=[{"id": "stdio:db", "state": "ready", "stderr": ["chatter"]}])
    assert "chatter" not in html
    assert buttons(html) == []


def test_a_project_without_a_server_can_be_started() -> None:
    stopped = Project("shop-1", "/shop", "stopped", is_running=False)
    html = project_page(project_view(stopped, "Its server does not run.", None))
    assert "Its server does not run." in html
    assert buttons(html) == ["Start"]


def test_what_waits_for_trust_is_shown_as_a_difference_with_the_command() -> None:
    change = {"kind": "changed", "title": "server db", "lines": ["-args = 1", "+args = 2"]}
    waiting = waiting_for_trust(SHOP.root, {"changes": [change], "problem": None})
    html = project_page(project_view(SHOP, {}, waiting))
    assert "<pre>-args = 1\n+args = 2</pre>" in html
    command = "<code>lmtb trust &#x27;/home/ann/my shop&#x27;</code>"
    assert f'<span class="command">{command} <button type="button" data-copy hidden>' in html


def test_nothing_is_said_of_trust_where_nothing_waits() -> None:
    assert waiting_for_trust("/a", {"changes": [], "problem": None}) is None
    assert not needs_trust({"issues": [{"code": "OTHER"}]})
    assert needs_trust({"issues": [{"code": "TRUST_PENDING"}]})


def test_unknown_differences_are_told() -> None:
    waiting = waiting_for_trust("/a", "it took longer than 20 s")
    assert waiting is not None
    assert "it took longer than 20 s" in project_page(project_view(SHOP, {}, waiting))


def test_a_project_is_found_by_the_id_of_its_workspace() -> None:
    rows = [{"workspace": "shop-1", "root": "/shop", "state": "ready", "pid": 7}]
    assert find_project(rows, "shop-1") == Project("shop-1", "/shop", "ready", is_running=True, sources=[])
    assert find_project(rows, "shop-2") is None


def hostile(name: str) -> str:
    source = {
        "id": name,
        "state": "failed",
        "error": name,
        "stderr": [name],
        "toolCount": 1,
        "visibility": name,
    }
    issue = {"code": name, "level": "error", "message": name, "details": name}
    change = {"kind": name, "title": name, "lines": [name]}
    tools = [
        tool(name, source=name, description=name, approval=name),
        tool(name, state="hidden", reason=f"disabled: {name}"),
    ]
    answer = {"tools": tools, "sources": [source], "issues": [issue]}
    project = Project(name, name, name, is_running=True)
    return project_page(project_view(project, answer, waiting_for_trust(name, {"changes": [change]})))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_make_no_element_and_no_attribute(name: str) -> None:
    tame, found = Elements(hostile("tame")), Elements(hostile(name))
    assert found.tags == tame.tags
    assert [key for key, _ in found.attributes] == [key for key, _ in tame.attributes]


FAR = Project("shop-2", "ssh://build/srv/shop", "ready", is_running=True, is_elsewhere=True)


def test_a_project_on_another_host_can_be_started_while_no_server_runs_there() -> None:
    assert buttons(project_page(project_view(FAR, "ssh://build says: no server runs", None))) == ["Start"]
    assert "own host" in project_page(project_view(FAR, {"tools": [tool("a")]}, None))


def said_by(name: str, rows: int) -> dict[str, Any]:
    """What the manager on a hostile host says of a project."""
    row = tool(name, tokens=name, description=name, visibility=name, approval=name, source=name)
    source = {"id": name, "state": "failed", "error": name, "toolCount": name, "stderr": [name] * 999}
    return {
        "tools": [row] * rows,
        "sources": [{**source, "visibility": name}] * rows,
        "issues": [{"message": name, "details": name}] * rows,
        "metaTools": [{"name": name, "tokens": name}],
    }


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_host_can_show_no_markup(hostile: str) -> None:
    found = Elements(project_page(project_view(FAR, said_by(hostile, 2), None)))
    plain = Elements(project_page(project_view(FAR, said_by("plain", 2), None)))
    assert found.tags == plain.tags
    assert [name for name, _ in found.attributes] == [name for name, _ in plain.attributes]


def test_a_hostile_host_can_show_no_list_without_end() -> None:
    html = project_page(project_view(FAR, said_by("x" * 20_000, 5_000), None))
    assert len(html) < 6_200_000
