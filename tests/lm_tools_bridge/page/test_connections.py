"""The picture of what is connected: who is in it, what moves, and what is left out."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.page.connections import (
    FLOW_S,
    MOST_LANES,
    MOST_NODES,
    Connections,
    connections,
    connections_html,
)
from lm_tools_bridge.terminal.views import Tone
from support.http.html_elements import HOSTILE, Elements

SHOP = "shop-5b0a4815548c"
NAMES = {SHOP: "shop"}


def source(name: str, state: str = "ready", kind: str = "stdio") -> dict[str, Any]:
    return {"id": f"{kind}:{name}", "kind": kind, "state": state}


def row(*sources: dict[str, Any], workspace: str = SHOP, **members: Any) -> dict[str, Any]:
    return {"workspace": workspace, "state": "ready", "pid": 7, "sources": list(sources), **members}


def client(
    name: str, workspace: str | None = SHOP, *, age: int = 60, state: str = "connected"
) -> dict[str, Any]:
    return {"name": name, "workspace": workspace, "state": state, "lastCallAgeSec": age}


def picture(*rows: dict[str, Any], clients: Any = (), calls: Any = None) -> Connections:
    return connections(rows, list(clients), calls or {}, NAMES)


def test_a_lane_has_the_agents_of_a_project_and_its_servers() -> None:
    made = picture(
        row(source("git"), source("far", kind="remote")), clients=[client("claude-code"), client("my-bot")]
    )
    (lane,) = made.lanes
    assert lane.name == "shop"
    assert [node.name for node in lane.agents] == ["Claude Code", "my-bot"]
    assert [node.name for node in lane.servers] == ["git", "far", "Built-in tools"]
    assert (made.agents, made.projects, made.servers) == (2, 1, 2)


def test_windows_of_one_agent_are_one_node_with_their_number() -> None:
    (lane,) = picture(row(), clients=[client("codex"), client("codex"), client("codex", state="idle")]).lanes
    assert [(node.name, node.about) for node in lane.agents] == [("Codex", "3 windows")]


def test_agents_that_are_gone_are_in_no_lane() -> None:
    (lane,) = picture(row(), clients=[client("codex", state="gone")]).lanes
    assert lane.agents == []


def test_servers_that_need_somebody_come_first_and_say_why() -> None:
    (lane,) = picture(row(source("git"), source("db", "crash_looping"), source("web", "pending_trust"))).lanes
    assert [(node.name, node.tone) for node in lane.servers[:2]] == [("db", Tone.BAD), ("web", Tone.WARN)]
    assert lane.servers[0].about == "ends again and again"


@pytest.mark.parametrize(
    ("calls", "moves"),
    [
        ({"running": [{"source": "stdio:git"}], "age": 99.0}, True),
        ({"ended": [{"source": "stdio:git", "ageSec": 0.5}], "age": 1.0}, True),
        ({"ended": [{"source": "stdio:git", "ageSec": 0.5}], "age": FLOW_S}, False),
        ({"running": [{"source": "stdio:other"}], "age": 0.0}, False),
        ({}, False),
    ],
    ids=["a call runs", "one has just ended", "it ended long ago", "it is another's", "there is none"],
)
def test_the_line_to_a_server_moves_while_calls_pass(calls: dict[str, Any], moves: bool) -> None:
    (lane,) = picture(row(source("git")), calls={SHOP: calls}).lanes
    assert lane.servers[0].is_flowing is moves
    assert ('class="flow"' in connections_html(picture(row(source("git")), calls={SHOP: calls}), 0)) is moves


def test_the_line_from_an_agent_moves_after_its_requests() -> None:
    (lane,) = picture(row(), clients=[client("codex", age=1), client("claude-code", age=4)]).lanes
    assert [node.is_flowing for node in lane.agents] == [True, False]


def test_calls_of_the_projects_own_tools_are_at_one_node() -> None:
    own = {"id": "builtin", "kind": "builtin", "state": "ready"}
    (lane,) = picture(row(own), calls={SHOP: {"running": [{"source": "builtin"}]}}).lanes
    assert [(node.name, node.is_flowing) for node in lane.servers] == [("Built-in tools", True)]


def test_projects_without_agents_and_server_are_left_out() -> None:
    assert picture(row(pid=None)).lanes == []
    assert "lmtb client add --all" in connections_html(picture(row(pid=None)), 0)


def test_agents_without_a_project_have_a_lane_without_a_link() -> None:
    made = picture(clients=[client("codex", None)])
    assert [(lane.workspace, lane.name) for lane in made.lanes] == [(None, "No project")]
    assert made.projects == 0
    assert "/page/project" not in connections_html(made, 0)


def test_projects_and_nodes_beyond_what_fits_are_counted() -> None:
    rows = [
        row(*(source(f"s{n}") for n in range(MOST_NODES + 3)), workspace=f"p{n}")
        for n in range(MOST_LANES + 2)
    ]
    made = picture(*rows)
    assert (len(made.lanes), made.left_out) == (MOST_LANES, 2)
    html = connections_html(made, 0)
    assert '<a href="#projects">2 more projects</a>' in html
    assert "5 more" in html


def test_what_needs_a_person_is_counted_above_the_picture() -> None:
    assert '<a class="badge" href="#needs">2 need you</a>' in connections_html(picture(row()), 2)
    assert "#needs" not in connections_html(picture(row()), 0)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_make_no_element(name: str) -> None:
    def tags(text: str) -> list[str]:
        made = picture(row(source(text, text), workspace=text, state=text), clients=[client(text, text)])
        return Elements(connections_html(made, 0)).tags

    assert tags(name) == tags("tame")


def test_a_status_of_another_version_is_drawn() -> None:
    assert connections([{}], [{}], {}, {}).lanes
