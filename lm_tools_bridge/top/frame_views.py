"""Arranges a frame of `lmtb top` as views, for a screen of some height. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.terminal.views import Column, Fact, FactList, Kind, Note, Table, Tone, View, tone_of
from lm_tools_bridge.text.quantities import duration, size
from lm_tools_bridge.top.frame import Frame

_CALLS: Final = (
    Column("CALL", Kind.NAME),
    Column("STATE", Kind.STATE),
    Column("TIME", Kind.LATENCY),
    Column("ENDED", Kind.AGO, rank=1),
    Column("CLIENT", rank=2),
    Column("WORKSPACE", rank=3),
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
_FIXED_LINES: Final = 11
"""Lines that are always there: the manager, heads of tables, empty lines, the last line."""
_FEWEST: Final = 3
_UNLIMITED: Final = 1000

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
    shown_views: list[View] = [_headline(frame["manager"]), _facts(frame["manager"], frame["needsYou"]), ""]
    shown_views.append(Table(_CALLS, [_call(call) for call in calls]) if calls else "no calls yet")
    shown_views += [
        "",
        Table(_SERVERS, [_server(call) for call in visible_servers]) if visible_servers else "no servers yet",
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


def _facts(manager: Mapping[str, Any], waiting: Sequence[Mapping[str, Any]]) -> FactList:
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


def _call(call: Mapping[str, Any]) -> tuple[object, ...]:
    state = call["state"] if tone_of(str(call["state"])) else f"error: {call['state']}"
    return (call["tool"], state, *(call[name] for name in ("ms", "ageSec", "client", "workspace")))


def _server(server: Mapping[str, Any]) -> tuple[object, ...]:
    name = server["workspace"] if server["source"] is None else f"  {server['source']}"
    figures = ("state", "inFlight", "callsPerSec", "rssBytes", "cpuPercent", "pid", "root")
    return (name, *(server[figure] for figure in figures))
