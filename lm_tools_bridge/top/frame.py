"""Makes a frame of `lmtb top` from two samples, and arranges it for a screen of some height. Pure.

A member that an older manager does not send is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.terminal.views import Column, Fact, FactList, Kind, Note, Table, Tone, View, tone_of
from lm_tools_bridge.text.quantities import duration, size
from lm_tools_bridge.top.sample import Sample, Usage
from manager.attention import attention_items
from manager.savings import savings_text
from manager.status_reading import is_gone, merged_workspaces, objects, project_names

_MANAGER: Final = (
    "state", "version", "pid", "address", "uptimeSec", "connectedClients", "sessions", "streams", "rssBytes",
)  # fmt: skip
_SERVER: Final = ("workspace", "state", "pid", "root", "calls", "errors", "inFlight", "rssBytes")

Frame = Mapping[str, Any]


def frame(now: Sample, before: Sample | None) -> Frame:
    """What is shown, as a JSON object: manager, servers, calls, what needs the user; rates since `before`."""
    if before is not None and before.status.get("pid") != now.status.get("pid"):
        before = None  # another manager counts anew
    seconds = 0.0 if before is None else now.at - before.at
    past: Mapping[str, Any] = {} if before is None else before.status
    usage = {} if before is None else before.usage
    rows_before = {entry.get("workspace"): entry for entry in merged_workspaces(past)}
    servers: list[dict[str, Any]] = []
    for row in merged_workspaces(now.status):
        if is_gone(row):
            continue
        servers.append(_server(row, rows_before.get(row.get("workspace")), seconds))
        calls = now.calls.get(str(row.get("workspace")))
        servers += _sources(row if calls is None else {**row, **calls.answer}, now.usage, usage, seconds)
    return {
        "manager": _manager(now.status, past, seconds),
        "servers": servers,
        "calls": list(_calls(now)),
        "savings": now.savings and now.savings.as_json(),
        "savesNow": savings_text(now.savings),
        "needsYou": [entry._asdict() for entry in attention_items(now.status)],
    }


def _manager(status: Mapping[str, Any], past: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    figures = status.get("figures")
    return {
        **{name: status.get(name) for name in _MANAGER},
        "inFlight": figures.get("inFlight") if isinstance(figures, Mapping) else None,
        "callsPerSec": _rate(figures, past.get("figures"), "calls", seconds),
        "cpuPercent": _percent(status, past, seconds),
    }


def _server(row: Mapping[str, Any], past: Mapping[str, Any] | None, seconds: float) -> dict[str, Any]:
    is_same = past is not None and past.get("pid") == row.get("pid")
    return {
        **{name: row.get(name) for name in _SERVER},
        "source": None,
        "callsPerSec": _rate(row, past, "calls", seconds),
        "cpuPercent": _percent(row, past if is_same else None, seconds),
    }


def _sources(
    row: Mapping[str, Any], usage: Mapping[int, Usage], past: Mapping[int, Usage], seconds: float
) -> Iterator[dict[str, Any]]:
    """The MCP servers behind a workspace server."""
    for source in objects(row, "sources"):
        if source.get("kind") not in {"stdio", "remote"}:
            continue
        pid = source.get("pid")
        used, earlier = (usages.get(pid) if isinstance(pid, int) else None for usages in (usage, past))
        yield {
            **dict.fromkeys((*_SERVER, "callsPerSec")),
            "workspace": row.get("workspace"),
            "source": source.get("id"),
            "state": source.get("state"),
            "pid": pid,
            "inFlight": source.get("inFlight"),
            "rssBytes": used[0] if used else None,
            "cpuPercent": _per_second(100 * (used[1] - earlier[1]), seconds) if used and earlier else None,
        }


def _calls(now: Sample) -> Iterator[dict[str, Any]]:
    """Calls that run, the longest first, then those that ended, the last one first."""
    running: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []
    for workspace, calls in now.calls.items():
        running += [_call(workspace, call, "running", None) for call in objects(calls.answer, "running")]
        ended += [
            _call(workspace, call, call.get("outcome"), _number(call, "ageSec", now.at - calls.at))
            for call in objects(calls.answer, "ended")
        ]
    yield from sorted(running, key=lambda call: -(call["ms"] or 0))
    yield from sorted(ended, key=lambda call: call["ageSec"] or 0)


def _call(workspace: str, call: Mapping[str, Any], state: object, age: float | None) -> dict[str, Any]:
    return {
        "tool": call.get("tool"),
        "workspace": workspace,
        "client": call.get("client"),
        "state": state,
        "ms": _number(call, "ms"),
        "ageSec": age,
    }


def _number(members: object, name: str, more: float = 0.0) -> float | None:
    value = members.get(name) if isinstance(members, Mapping) else None
    return round(value + more, 3) if isinstance(value, int | float) else None


def _rate(now: object, past: object, member: str, seconds: float) -> float | None:
    """How much a counter grew in a second."""
    new, old = _number(now, member), _number(past, member)
    return None if new is None or old is None else _per_second(new - old, seconds)


def _percent(now: object, past: object, seconds: float) -> float | None:
    """How much of one processor was used."""
    return _rate(now, past, "cpuSec", seconds / 100)


def _per_second(growth: float, seconds: float) -> float | None:
    return round(max(0.0, growth / seconds), 1) if seconds > 0 else None


_CALLS: Final = (
    Column("CALL", Kind.NAME),
    Column("STATE", Kind.STATE),
    Column("TIME", Kind.LATENCY),
    Column("ENDED", Kind.AGO, rank=1),
    Column("CLIENT", rank=2),
    Column("PROJECT", rank=3),
)
_SERVERS: Final = (
    Column("SERVER", Kind.NAME),
    Column("STATE", Kind.STATE),
    Column("RUNNING", Kind.NUMBER, rank=1),
    Column("CALLS/S", Kind.NUMBER, rank=2),
    Column("MEMORY", Kind.SIZE, rank=3),
    Column("CPU %", Kind.NUMBER, rank=3),
    Column("PID", Kind.NUMBER, rank=5),
    Column("FOLDER", Kind.FOLDER, rank=4),
)
_FIXED_LINES: Final = 12
"""Lines that are always there: the manager, heads of tables, empty lines, the last line."""
_FEWEST: Final = 3  # rows that each table keeps on a low screen, so that both can be read
_UNLIMITED: Final = 1000  # more lines than a terminal has

WAITING: Final[list[View]] = [
    Note("waiting for the manager", Tone.BUSY),
    FactList([Fact("next step", "lmtb up")]),
]
"""What is shown while no manager answers."""


def views(frame: Frame, height: int = _UNLIMITED) -> list[View]:
    """The frame on a screen with so many lines: what is busy goes first, what does not fit is left out."""
    free = max(height - _FIXED_LINES, 2 * _FEWEST)
    servers = sorted(frame["servers"], key=_is_idle) if _must_choose(frame, free) else frame["servers"]
    visible_servers = servers[: max(free // 2, free - len(frame["calls"]))]
    calls = frame["calls"][: free - len(visible_servers)]
    shown_views: list[View] = [_headline(frame["manager"]), _facts(frame), ""]
    names = project_names(row["workspace"] for row in (*frame["servers"], *frame["calls"]))
    call_rows = [_call_row(call, names) for call in calls]
    shown_views.append(Table(_CALLS, call_rows) if calls else "no calls yet")
    shown_views += [
        "",
        Table(_SERVERS, [_server_row(server, names) for server in visible_servers])
        if visible_servers
        else "no servers yet",
    ]
    hidden = len(servers) - len(visible_servers)
    return [*shown_views, f"and {hidden} more"] if hidden else shown_views


def _must_choose(frame: Frame, free: int) -> bool:
    return len(frame["servers"]) + min(len(frame["calls"]), _FEWEST) > free


def _is_idle(server: Mapping[str, Any]) -> bool:
    return not (server["inFlight"] or server["callsPerSec"])


def _headline(manager: Mapping[str, Any]) -> Note:
    state = str(manager["state"] or "running")
    up = duration(manager["uptimeSec"])
    about = [f"pid {manager['pid']}", *([f"up {up}"] if up else [])]
    return Note(
        f"LM Tools Bridge {manager['version'] or '?'} is {state} ({', '.join(about)})", tone_of(state)
    )


def _facts(frame: Frame) -> FactList:
    manager, waiting = frame["manager"], frame["needsYou"]
    rate, cpu = manager["callsPerSec"], manager["cpuPercent"]
    used = [size(manager["rssBytes"]), None if cpu is None else f"{cpu:.1f} % of a processor"]
    calls = [
        f"{_rounded_number(manager['inFlight'])} running",
        *([] if rate is None else [f"{rate:.1f} a second"]),
    ]
    clients = (
        f"{_rounded_number(manager['connectedClients'])} connected, "
        f"{_rounded_number(manager['sessions'])} sessions, {_rounded_number(manager['streams'])} streams"
    )
    used_text = ", ".join(part for part in used if part) or "-"
    return FactList(
        [
            *_needs(waiting),
            Fact("calls", ", ".join(calls)),
            Fact("manager", used_text),
            Fact("clients", clients),
            Fact("saves now", frame["savesNow"]),
        ]
    )


def _needs(waiting: Sequence[Mapping[str, Any]]) -> list[Fact]:
    """The first thing that waits for a person, and how many more do."""
    if not waiting:
        return []
    more = f", and {len(waiting) - 1} more" if len(waiting) > 1 else ""
    return [Fact("needs you", f"{waiting[0]['text']}: {waiting[0]['next_step']}{more}", Tone.WARN)]


def _rounded_number(number: object) -> object:
    return "-" if number is None else number


def _call_row(call: Mapping[str, Any], names: Mapping[str, str]) -> tuple[object, ...]:
    state = call["state"] if tone_of(str(call["state"])) else f"error: {call['state']}"
    figures = (call[name] for name in ("ms", "ageSec", "client"))
    return (call["tool"], state, *figures, names.get(str(call["workspace"])))


def _server_row(server: Mapping[str, Any], names: Mapping[str, str]) -> tuple[object, ...]:
    name = names.get(str(server["workspace"])) if server["source"] is None else f"  {server['source']}"
    figures = ("state", "inFlight", "callsPerSec", "rssBytes", "cpuPercent", "pid", "root")
    return (name, *(server[figure] for figure in figures))
