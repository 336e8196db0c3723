"""Arranges the state of a membership, and the offers of a team, as views. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from lm_tools_bridge.terminal.views import Column, Fact, FactList, Kind, Note, Table, Tone, View
from manager.status_reading import objects

_OWN: Final = (
    Column("OFFERED", Kind.NAME), Column("KIND"), Column("POLICY"), Column("TOOLS"),
    Column("FOLDER", Kind.FOLDER),
)  # fmt: skip
_USED: Final = (Column("USED", Kind.NAME), Column("AS", Kind.NAME), Column("HOSTS"), Column("NOT ACCEPTED"))
_OFFERS: Final = (
    Column("OFFER", Kind.NAME), Column("KIND", rank=2), Column("TOOLS", Kind.NUMBER, rank=1),
    Column("HOST", Kind.NAME), Column("STATE", Kind.STATE), Column("POLICY", rank=1),
    Column("REPOSITORY", rank=3), Column("TITLE", rank=4),
)  # fmt: skip


def state(answer: Mapping[str, Any]) -> Iterator[View]:
    """The state of the membership."""
    if not answer.get("joined"):
        yield Note(str(answer.get("error") or "no team was joined; join one: lmtb team join URL"))
        return
    registry: Mapping[str, Any] = answer.get("registry") or {}
    connected = bool(answer.get("connected"))
    facts = [
        Fact("this host", str(answer.get("name"))),
        Fact(
            "server",
            f"connected to {answer.get('server')}" if connected else "not connected",
            Tone.GOOD if connected else Tone.WARN,
        ),
        Fact("hosts with offers", str(registry.get("hosts", 0))),
    ]
    if registry.get("staleSeconds") is not None:
        facts.append(Fact("registry", f"stale for {registry['staleSeconds']:.0f} s", Tone.WARN))
    if answer.get("error"):
        facts.append(Fact("error", str(answer["error"]), Tone.BAD))
    if ignored := registry.get("ignored"):
        reasons = "; ".join(f"{host}: {why}" for host, why in ignored.items())
        facts.append(Fact("ignored entries", reasons, Tone.WARN))
    yield FactList(facts)
    yield from _lists(answer)


def offers(answer: Mapping[str, Any]) -> Iterator[View]:
    """What the team offers, one row for each host."""
    rows = [
        (
            offer.get("name"), offer.get("kind"), host.get("tools"),
            f"{host.get('host')} (you)" if host.get("own") else host.get("host"),
            host.get("state"), host.get("policy"), host.get("repository"), offer.get("title"),
        )
        for offer in objects(answer, "offers")
        for host in objects(offer, "hosts")
    ]  # fmt: skip
    if not rows:
        yield Note("the team offers nothing that matches")
    else:
        yield Table(_OFFERS, rows)
    if answer.get("omitted"):
        yield Note(f"{answer['omitted']} more; give a part of the name")
    if answer.get("staleSeconds") is not None:
        yield Note(
            f"the registry cannot be reached; this is what was known {answer['staleSeconds']:.0f} s ago"
        )


def _lists(answer: Mapping[str, Any]) -> Iterator[View]:
    own = [
        (entry.get("name"), entry.get("kind"), entry.get("policy"), _patterns(entry), entry.get("root"))
        for entry in objects(answer, "offers")
    ]
    if own:
        yield ""
        yield Table(_OWN, own)
    used = [
        (
            entry.get("offer"),
            entry.get("namespace"),
            ", ".join(entry.get("hosts") or ()) or "none is there",
            ", ".join(entry.get("notAccepted") or ()),
        )
        for entry in objects(answer, "uses")
    ]
    if used:
        yield ""
        yield Table(_USED, used)


def _patterns(own: Mapping[str, Any]) -> str:
    """Which tools of an own offer its patterns let through, as they are given."""
    but = " ".join(f"not {pattern}" for pattern in own.get("exclude") or ())
    return " ".join((*(own.get("include") or ("all",)), but)).strip()
