"""The picture of what is connected: agents, the projects they are in, and the servers behind those. Pure.

Each project is a lane: its agents at the left, its servers at the right, lines between. A line moves while
calls pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.page.html import copyable, plain_state, project_path, text
from lm_tools_bridge.terminal.views import MARKS, Tone, tone_of
from manager.status_reading import client_title, objects

MOST_LANES: Final = 12
"""More projects than fit on a screen are a table."""
MOST_NODES: Final = 8
"""Most agents, and most servers, of one project in the picture."""
FLOW_S: Final = 3.0
"""Seconds for which a line moves after a call: long enough to be seen, and to join calls of a busy agent."""
_GONE: Final = "gone"
_OWN_TOOLS: Final = "Built-in tools"
_NOBODY: Final = "No project"


@dataclass(frozen=True, slots=True)
class Node:
    """An agent or a server in the picture.

    Attributes:
        about: what is said below its name; empty for nothing.
        is_flowing: whether calls pass between it and its project.
    """

    name: str
    tone: Tone
    about: str = ""
    is_flowing: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """A project with its agents and servers; `workspace` is None for agents without a project."""

    workspace: str | None
    name: str
    state: str
    agents: Sequence[Node]
    servers: Sequence[Node]


@dataclass(frozen=True, slots=True)
class Connections:
    """The lanes, how many projects are left out, and how many agents, projects and servers are connected."""

    lanes: Sequence[Lane] = ()
    left_out: int = 0
    agents: int = 0
    projects: int = 0
    servers: int = 0


def connections(
    rows: Iterable[Mapping[str, Any]],
    clients: Sequence[Mapping[str, Any]],
    calls: Mapping[str, Mapping[str, Any]],
    names: Mapping[str, str],
) -> Connections:
    """Select what is in the picture.

    Args:
        rows: the workspaces, merged with their servers.
        clients: those of the status.
        calls: for each workspace that has some, what its server last said of its calls, with `age`: for how
            many seconds that has been known.
        names: those of projects, by the ids of their workspaces.
    """
    there = [client for client in clients if client.get("state") != _GONE]
    lanes = [_lane(row, there, calls.get(str(row.get("workspace")), {}), names) for row in rows]
    active = [lane for lane in lanes if lane.agents or lane.servers]
    lost = [client for client in there if client.get("workspace") is None]
    if lost:
        active.append(Lane(None, _NOBODY, "", list(_agents(lost)), ()))
    # agents without a project last, as nothing can be done for them there
    busiest_first = sorted(active, key=lambda lane: (lane.workspace is None, not lane.agents, lane.name))
    return Connections(
        busiest_first[:MOST_LANES],
        max(0, len(active) - MOST_LANES),
        sum(client.get("state") == "connected" for client in there),
        sum(lane.workspace is not None for lane in active),
        sum(node.name != _OWN_TOOLS for lane in active for node in lane.servers),
    )


def _lane(
    row: Mapping[str, Any],
    clients: Iterable[Mapping[str, Any]],
    calls: Mapping[str, Any],
    names: Mapping[str, str],
) -> Lane:
    workspace = str(row.get("workspace"))
    here = [client for client in clients if client.get("workspace") == workspace]
    runs = row.get("pid") is not None or row.get("owner") == "remote"
    servers = list(_servers(row, _busy_sources(calls))) if runs else []
    return Lane(
        workspace, names.get(workspace, workspace), str(row.get("state")), list(_agents(here)), servers
    )


def _agents(clients: Iterable[Mapping[str, Any]]) -> Iterator[Node]:
    """One for each program, with the number of its windows."""
    titles: dict[str, list[Mapping[str, Any]]] = {}
    for client in clients:
        title = client_title(str(client.get("name") or "Unnamed client"))
        titles.setdefault(title, []).append(client)
    for title, windows in titles.items():
        states = Counter(str(window.get("state")) for window in windows)
        about = f"{len(windows)} windows" if len(windows) > 1 else ""
        tone = Tone.GOOD if states["connected"] else Tone.OFF
        yield Node(
            title, tone, about or ("" if states["connected"] else "idle"), any(map(_calls_now, windows))
        )


def _calls_now(client: Mapping[str, Any]) -> bool:
    age = client.get("lastCallAgeSec")
    return isinstance(age, int | float) and age < FLOW_S


def _busy_sources(calls: Mapping[str, Any]) -> frozenset[str]:
    """The ids of the sources that a call runs in, or ran in just now."""
    known_for = calls.get("age", 0.0)
    ended = (call for call in objects(calls, "ended") if _seconds(call) + known_for < FLOW_S)
    return frozenset(str(call.get("source")) for call in (*objects(calls, "running"), *ended))


def _seconds(call: Mapping[str, Any]) -> float:
    age = call.get("ageSec")
    return float(age) if isinstance(age, int | float) else FLOW_S


def _servers(row: Mapping[str, Any], busy: frozenset[str]) -> Iterator[Node]:
    """The MCP servers of a project, those that need somebody first, then its own tools as one."""
    sources = objects(row, "sources")
    servers = [source for source in sources if source.get("kind") in {"stdio", "remote"}]
    servers.sort(key=lambda source: _tone(source) not in {Tone.BAD, Tone.WARN})
    for source in servers:
        identity = str(source.get("id"))
        tone = _tone(source)
        about = "" if tone is Tone.GOOD else str(plain_state(source.get("state")))
        yield Node(identity.partition(":")[2] or identity, tone, about, identity in busy)
    own = {str(source.get("id")) for source in sources} - {str(source.get("id")) for source in servers}
    yield Node(_OWN_TOOLS, Tone.GOOD, "", bool(own & busy))


def _tone(source: Mapping[str, Any]) -> Tone:
    return tone_of(str(source.get("state") or "")) or Tone.OFF


def connections_html(picture: Connections, needs: int) -> str:
    """The picture.

    Args:
        needs: how many things need a person; they are below, or beside.
    """
    badge = f'<a class="badge" href="#needs">{_count_text(needs, "need")} you</a>' if needs else ""
    head = f'<div class="head"><h2>Connected now</h2>{badge}</div>'
    if not picture.lanes:
        return (
            f"{head}<p>No agent is connected, and no project is open. Connect the agents that you have: "
            f"{copyable('lmtb client add --all')}</p><p>Then start one in a project.</p>"
        )
    counts = " · ".join(
        (
            _count_text(picture.agents, "agent"),
            _count_text(picture.projects, "project"),
            _count_text(picture.servers, "server"),
        )
    )
    lanes = "".join(map(_lane_html, picture.lanes))
    rest = ""
    if picture.left_out:
        rest = f'<p><a href="#projects">{_count_text(picture.left_out, "more project")}</a></p>'
    heads = (
        '<p class="heads" aria-hidden="true"><span>Agents</span><span>Project</span><span>Servers</span></p>'
    )
    return f'{head}<p class="dim">{counts}</p>{heads}<ul class="lanes">{lanes}</ul>{rest}'


def _count_text(count: int, thing: str) -> str:
    if thing == "need":
        return "1 needs" if count == 1 else f"{count:,} need"
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _lane_html(lane: Lane) -> str:
    agents, servers = _cut(lane.agents), _cut(lane.servers)
    return (
        f'<li class="lane">{_nodes("agents", agents, "No agent")}{_lines(agents, "in")}{_hub(lane)}'
        f"{_lines(servers, 'out')}{_nodes('servers', servers, 'No server runs')}</li>"
    )


def _cut(nodes: Sequence[Node]) -> list[Node]:
    if len(nodes) <= MOST_NODES:
        return list(nodes)
    rest = nodes[MOST_NODES - 1 :]
    more = Node(f"{len(rest)} more", Tone.OFF, "", any(node.is_flowing for node in rest))
    return [*nodes[: MOST_NODES - 1], more]


def _hub(lane: Lane) -> str:
    tone = tone_of(lane.state) or Tone.OFF
    state = "" if tone is Tone.GOOD or not lane.state else f"<small>{text(plain_state(lane.state))}</small>"
    name = text(lane.name)
    if lane.workspace is None:
        return f'<span class="node hub off"><b>{name}</b></span>'
    path = text(project_path(lane.workspace))
    return f'<a class="node hub {tone.value}" href="{path}"><b>{name}</b>{state}</a>'


def _nodes(kind: str, nodes: Sequence[Node], empty: str) -> str:
    if not nodes:
        return f'<ul class="{kind}"><li class="node none">{empty}</li></ul>'
    items = "".join(f'<li class="node {node.tone.value}">{_node(node)}</li>' for node in nodes)
    return f'<ul class="{kind}">{items}</ul>'


def _node(node: Node) -> str:
    about = f"<small>{text(node.about)}</small>" if node.about else ""
    mark = f'<span class="mark" aria-hidden="true">{MARKS[node.tone]}</span>'
    return f"<b>{mark} {text(node.name)}</b>{about}"


def _lines(nodes: Sequence[Node], way: str) -> str:
    """A curve between each node and its project. The drawing is stretched to its place between both.

    Args:
        way: `in` for curves that end at the project, `out` for those that begin there.
    """
    count = max(1, len(nodes))
    curves = "".join(
        f'<path class="{"flow" if node.is_flowing else node.tone.value}" d="{_curve(at, way)}"/>'
        for at, node in ((100 * (number + 0.5) / count, node) for number, node in enumerate(nodes))
    )
    return (
        '<span class="lines"><svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">'
        f"{curves}</svg></span>"
    )


def _curve(y: float, way: str) -> str:
    return f"M0 {y:g}C50 {y:g} 50 50 100 50" if way == "in" else f"M0 50C50 50 50 {y:g} 100 {y:g}"
