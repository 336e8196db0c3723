"""Compares the measured figures with their targets. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scripts.benchmarks.results.table import figure, table


@dataclass(frozen=True)
class Target:
    """An upper limit for a figure, or a lower one if `at_least` is true."""

    figure: str
    text: str
    limit: float
    unit: str = ""
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Whether the figure meets the target."""
        return value >= self.limit if self.at_least else value <= self.limit


TENTH = 1.1
"""By how much a recorded figure may grow unseen: less is within what runs differ by."""
RECORDED: Mapping[str, float] = {
    "modules of an idle manager": 723,
    "modules of a workspace server": 626,
    "modules of a call in manager": 37,
    "modules of a call in workspace_server": 32,
    "start × a bare aiohttp server": 0.89,
    "idle manager MB": 54.2,
    "further workspace MB": 11.3,
    "built-in call": 4.6,
}
"""What `unseen-growth` measured. Who makes one grow on purpose records it anew, and says why."""
MORE_IS_BETTER = frozenset({"built-in call"})
TIMES = " × nginx"
PURE, SESSION = "pure URL", "session, `_meta` spliced in"
SDK = "calls/s of a built-in tool beside the official SDK's server"
PEERS = "calls/s in a session, 200 B, beside the best other MCP proxy"
TARGETS = (
    Target("cpu modern", f"processor time of a call, 200 B, 16 connections, {PURE}", 1.5, TIMES),
    Target("cpu legacy", f"processor time of a call, 200 B, 16 connections, {SESSION}", 1.8, TIMES),
    Target("peers mcp", f"{PEERS}, over MCP", 12, " ×", at_least=True),
    Target("peers", f"{PEERS}, including endpoints without MCP", 12, " ×", at_least=True),
    Target("added p50 modern", f"latency (p50) added at 1 connection, {PURE}", 1.3, TIMES),
    Target("added p50 legacy", f"latency (p50) added at 1 connection, {SESSION}", 1.3, TIMES),
    *(
        Target(
            f"rate {size} {form}{read}",
            f"calls/s, results of {size}, {name}{servers}, worst case",
            0.8,
            TIMES,
            at_least=True,
        )
        for read, servers in (("", ""), ("-read", " from servers that announce no result trim"))
        for size in ("10KB", "1MB")
        for form, name in (("json", "JSON"), ("sse", "event stream"))
    ),
    Target("large memory", "memory of the manager, results of 1 MB beside those of 200 B", 1.25, " ×"),
    Target("neighbour", "small calls beside four streams of 1 MB, p99", 1.0, TIMES),
    *(
        Target(f"growth {name} {kind}", f"processor time of a call, {much}, {how}", 1.1, " ×")
        for name, much in (
            ("workspaces", "100 workspaces beside 1"),
            ("sessions", "10,000 sessions beside 10"),
        )
        for kind, how in (
            ("kept", "each connection keeps its own"),
            ("in_turns", "a different one for each call"),
        )
    ),
    *(
        Target(
            f"recorder {era}",
            f"processor time of a call that is recorded beside one that is not, {name}",
            1.03,
            " ×",
        )
        for era, name in (("modern", PURE), ("legacy", SESSION))
    ),
    Target("recorder loop us", "processor time of the event loop to record a call", 0.5, " µs"),
    Target("record us", "processor time of the recorder's thread for a record in a burst", 3, " µs"),
    Target("record search ms", "the newest 50 of a kind among 1,000,000 recorded calls", 100, " ms"),
    Target("session KiB", "memory of an idle session", 1.0, " KiB"),
    Target("stream KiB", "memory of an open stream, its connection included", 4.0, " KiB"),
    Target("builtin json", f"{SDK}, JSON", 5, " ×", at_least=True),
    Target("builtin sse", f"{SDK}, event streams, its default", 5, " ×", at_least=True),
    *(
        Target(
            f"search {figure} cold", f"first search of a server for {what}, 62,838 files", 1.3, " × ripgrep"
        )
        for figure, what in (("files", "all files"), ("names", "`*.ts`"), ("text", "a text in 20 lines"))
    ),
    Target("search names warm ms", "later search for `*.ts`, 62,838 files that did not change", 50, " ms"),
    Target(
        "references over bare ms",
        "later answer of `lm_references` with 5 uses, over 1.2 × the bare server",
        1,
        " ms",
    ),
    Target("references incomplete", "answers of `lm_references` that were not complete", 0),
    Target("references 8 agents", "memory of language servers, 8 agents beside 1", 1.1, " ×"),
    Target("start s", "manager, from start to first answer", 0.25, " s"),
    Target("idle MB", "manager, idle memory", 48, " MB"),
    Target("status ms", "`lmtb status`, processor time", 60, " ms"),
    Target("cold ms", "handshake that starts a server, to the first answer of a tool, p95", 60, " ms"),
    Target("workspace MB", "memory (PSS) of a further workspace", 12, " MB"),
    Target("start to prompt, ms", "terminal agent, from start to prompt", 400, " ms"),
    Target(
        "the same without drawing and Markdown, ms",
        "terminal agent, processor time of 2,000 pieces that are not drawn",
        60,
        " ms",
    ),
    Target(
        "memory after a reply with tools, MiB", "terminal agent, memory after a reply with tools", 60, " MiB"
    ),
    Target("remote added ms", "call to another host, p50, beyond the line and the call there", 1, " ms"),
    Target("remote added 1 ms ms", "the same, over a line of 1 ms", 1, " ms"),
    Target("remote warm s", "first answer of another host whose manager runs", 0.3, " s"),
    Target("remote cold s", "first answer of another host where nothing runs", 5, " s"),
    Target("remote project KiB", "memory here of a further project on another host", 200, " KiB"),
    Target("refused calls", "calls that failed", 0),
    *(
        Target(
            name,
            f"{name}; recorded: {value:g}",
            value / TENTH if name in MORE_IS_BETTER else value * TENTH,
            at_least=name in MORE_IS_BETTER,
        )
        for name, value in RECORDED.items()
    ),
)


def verdict(target: Target, value: float | None) -> str:
    """The last column of the table: met, not met or not measured."""
    if value is None:
        return "not measured"
    return "met" if target.met(value) else "**not met**"


def against(figures: Mapping[str, float], targets: Iterable[Target] = TARGETS) -> str:
    """The table of the targets with the measured figures."""
    rows = []
    for one in targets:
        value = figures.get(one.figure)
        word = "≥" if one.at_least else "≤"
        measured = None if value is None else f"{figure(value)}{one.unit}"
        rows.append((one.text, f"{word} {one.limit:g}{one.unit}", measured, verdict(one, value)))
    return table(("what", "target", "measured", ""), rows)


def broken(figures: Mapping[str, float], targets: Iterable[Target] = TARGETS) -> list[Target]:
    """The targets that were measured and not met."""
    return [one for one in targets if one.figure in figures and not one.met(figures[one.figure])]
