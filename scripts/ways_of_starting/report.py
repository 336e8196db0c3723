"""The tables of measured cells, for `docs/build/ways-of-starting.md`. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from lm_tools_bridge.client_setup.clients import client_named
from lm_tools_bridge.client_setup.entries import Endpoint, address_of
from scripts.ways_of_starting.measuring import Cell
from support.clients.agent_table import AGENTS
from support.clients.ways.entries import ENTRIES
from support.clients.ways.outcomes import Outcome
from support.clients.ways.table import WAYS


def ways_text(cells: Sequence[Cell]) -> str:
    """A table for each agent, with the causes below it, and the sums."""
    ours = [cell for cell in cells if cell.entry == written_entry(cell.agent)]
    sums = f"With the entries that `lmtb client add` writes: {summary(ours)}. With all: {summary(cells)}."
    return "\n\n".join([sums, *(_agent_text(agent, cells) for agent in AGENTS if _of(cells, agent))])


def written_entry(agent: str) -> str:
    """The entry that `lmtb client add` writes."""
    client = client_named(agent)
    assert client
    address = address_of(client.entry(Endpoint(47100, "lmtb")))
    if address is None:
        return "connect"
    return "query" if "?cwd=" in address else "roots"


def summary(cells: Sequence[Cell]) -> str:
    """How many cells came to what."""
    counts = {outcome: sum(cell.outcome == outcome for cell in cells) for outcome in Outcome}
    return ", ".join(f"{count} {outcome.word}" for outcome, count in counts.items() if count)


def starts_text(cells: Sequence[Cell]) -> str:
    """Start times and tokens, each agent with each entry."""
    heads = ("agent", "entry", "start to first request: median", "minimum", "runs", "tokens of it")
    rows = []
    for agent in AGENTS:
        for entry in ("none", *ENTRIES):
            runs = [cell for cell in _of(cells, agent) if cell.entry == entry and cell.first_request_s]
            if runs:
                times = [cell.first_request_s[0] for cell in runs]
                tokens = f"{runs[-1].tokens:,}"
                times_text = (f"{statistics.median(times):.2f} s", f"{min(times):.2f} s", str(len(runs)))
                rows.append((agent, entry, *times_text, tokens))
    return _table(heads, rows)


def _agent_text(agent: str, cells: Sequence[Cell]) -> str:
    ours = _of(cells, agent)
    entries = [entry for entry in ENTRIES if any(cell.entry == entry for cell in ours)]
    causes = list(dict.fromkeys(cell.cause for cell in ours if cell.outcome > Outcome.RIGHT))
    rows = []
    for way in (way for way in WAYS if any(cell.way == way for cell in ours)):
        by_entry = {cell.entry: cell for cell in ours if cell.way == way}
        words = [_cell_text(by_entry[entry], causes) if entry in by_entry else "" for entry in entries]
        rows.append((WAYS[way].title, *words))
    notes = [f"{number}. {_plain(cause)}" for number, cause in enumerate(causes, 1)]
    heads = [f"**{entry}**" if entry == written_entry(agent) else entry for entry in entries]
    heading = f"### {agent}, `{AGENTS[agent].package.replace(' ', '` ', 1)}"
    return "\n".join([heading, "", _table(("started", *heads), rows), *(["", *notes] if notes else [])])


def _cell_text(cell: Cell, causes: Sequence[str]) -> str:
    if cell.outcome == Outcome.RIGHT:
        return cell.outcome.word
    return f"{cell.outcome.word} ({causes.index(cell.cause) + 1})"


def _plain(text: str) -> str:
    """A cause in one line that Markdown shows as it is."""
    return f"`` {' '.join(text.replace('`', chr(39)).split())} ``"


def _of(cells: Iterable[Cell], agent: str) -> list[Cell]:
    return [cell for cell in cells if cell.agent == agent]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
