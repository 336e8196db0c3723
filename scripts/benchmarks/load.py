"""The load: wrk, sending requests that were written beforehand, each with an id of its own.

It is one thread in C; every table of the hop says how far it is from being what limits a measurement.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

from protocol import headers, jsonrpc, names
from protocol.inbound import modern_meta
from scripts.benchmarks.cases import MODERN, REVISION
from scripts.benchmarks.chain import ASKING, CLIENT, post
from scripts.benchmarks.machine import busy_s
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.processes import cores, cpu_ns, family, rss_mb, start
from scripts.benchmarks.rounds import Measured

ID = b"1000000"
"""Stands where the load counts: in a session, no two calls may have one id at the same time."""

COUNTING = """
local id, threads = {id}, 1
turn = 0
setup = function(thread)
  thread:set("turn", threads)
  threads = threads + 1
end
request = function()
  id = id + 1
  {turn}
  return heads[turn] .. id .. behind
end
{delay}
done = function(summary, latency, requests)
  io.write(string.format("RESULT %d %d %d %f %f %d\\n", summary.requests, summary.duration, summary.bytes,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.timeout))
end
"""

NEXT, KEEP = "turn = turn % #heads + 1", "turn = (turn - 1) % #heads + 1"


@dataclass(frozen=True)
class Target:
    """Somebody to be called: the addresses to take in turns, the sessions likewise, and the process it is.

    `behind` are processes that answer for it and are not counted as its own. `kept`: each connection stays
    with one address and session, as a client does; otherwise every call has the next.
    """

    name: str
    pid: int
    urls: Sequence[str]
    sessions: Sequence[str] = ("",)
    behind: Sequence[int] = ()
    kept: bool = False


@dataclass(frozen=True)
class Call:
    """What is called: in which era, which tool, with what."""

    era: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=lambda: {"text": "x" * 200})

    @property
    def body(self) -> bytes:
        """Its message."""
        params: dict[str, object] = {"name": self.tool, "arguments": self.arguments}
        if self.era == "modern":
            params["_meta"] = modern_meta(jsonrpc.raw({}), jsonrpc.raw(CLIENT))
        return jsonrpc.request(ID, names.TOOLS_CALL, params)

    def fields(self, session: str) -> dict[str, str]:
        """Its header fields."""
        fields = {headers.VERSION: MODERN if self.era == "modern" else REVISION}
        fields |= {headers.METHOD: names.TOOLS_CALL, headers.NAME: self.tool}
        return fields | ({headers.SESSION: session} if session and self.era == "legacy" else {})


def head(url: str, fields: Mapping[str, str], length: int) -> str:
    """The head of a request."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in {**ASKING, **fields}.items()]
    return "\r\n".join([*lines, "", ""])


def script(heads: Sequence[str], body: bytes, *, delay_ms: int = 0, kept: bool = False) -> str:
    """The load as wrk wants it: one of the heads, then the body with the next id.

    `kept`: each thread stays with a head of its own.
    """
    before, _, behind = body.decode().partition(ID.decode())
    listed = ",\n".join(json.dumps(each + before) for each in heads)
    delay = f"delay = function() return {delay_ms} end" if delay_ms else ""
    texts = f"local heads = {{\n{listed}\n}}\nlocal behind = {json.dumps(behind)}\n"
    return texts + COUNTING.format(id=ID.decode(), delay=delay, turn=KEEP if kept else NEXT)


def heads_of(target: Target, call: Call) -> list[str]:
    """The heads a target is called with: its addresses and sessions in turns."""
    return [
        head(url, call.fields(session), len(call.body))
        for _, url, session in zip(
            range(max(len(target.urls), len(target.sessions))), cycle(target.urls), cycle(target.sessions)
        )
    ]


@dataclass(frozen=True)
class Told:
    """What wrk said, and the processor time it took itself."""

    calls: int
    seconds: float
    size: float
    p50: float
    p99: float
    refused: int
    cpu_s: float


@dataclass(frozen=True)
class Running:
    """A load under way."""

    process: subprocess.Popen[bytes]
    output: Path

    def wait(self) -> Told:
        """What it said at its end."""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return read(self.output.read_text(), used.ru_utime + used.ru_stime)


@contextlib.contextmanager
def pressing(
    folder: Path, url: str, lua: str, connections: int, seconds: int, *, threads: int = 1
) -> Iterator[Running]:
    """A load for as long as it lasts, at most as long as the block."""
    file = folder / f"load-{connections}.lua"
    file.write_text(lua)
    out = file.with_suffix(".out")
    command = (
        path(),
        f"-t{threads}",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        "20s",
        "-s",
        str(file),
        url,
    )
    one = start(*command, on=cores().load, log=out)
    try:
        yield Running(one, out)
    finally:
        if one.returncode is None:
            one.kill()
            one.wait()


def read(said: str, cpu_s: float) -> Told:
    """Wrk's own words, read."""
    found = re.search(r"RESULT (\d+) (\d+) (\d+) ([\d.]+) ([\d.]+) (\d+)", said)
    if found is None:
        raise RuntimeError(f"wrk said: {said}")
    calls, duration, size, p50, p99, refused = (float(one) for one in found.groups())
    return Told(int(calls), duration / 1e6, size / max(1, calls), p50, p99, int(refused), cpu_s)


def path() -> str:
    """The program."""
    return shutil.which("wrk") or ""


def version() -> str:
    """What it says it is."""
    said = subprocess.run([path(), "-v"], capture_output=True, text=True, check=False).stdout
    return " ".join(said.split()[:2]).removeprefix("wrk ")


def measure(call: Call, connections: int, target: Target, plan: Plan) -> Measured:
    """One round."""
    heads = heads_of(target, call)
    if target.kept:
        heads = heads[:: max(1, len(heads) // connections)]
    lua = script(heads, call.body, kept=target.kept)
    threads = connections if target.kept else 1
    return under(
        lambda: pressing(plan.folder, target.urls[0], lua, connections, plan.seconds, threads=threads), target
    )


def under(load: Callable[[], contextlib.AbstractContextManager[Running]], target: Target) -> Measured:
    """What a load shows of a target."""
    own = [pid for pid in family(target.pid) if pid not in target.behind] if target.pid else []
    everybody = busy_s()
    before, before_alone, before_behind = cpu_ns(own), cpu_ns(own[:1]), cpu_ns(target.behind)
    with load() as running:
        told = running.wait()
    used, alone = cpu_ns(own) - before, cpu_ns(own[:1]) - before_alone
    behind = cpu_ns(target.behind) - before_behind
    others = busy_s() - everybody - told.cpu_s - (used + behind) / 1e9
    return Measured(
        cpu=used / 1000 / max(1, told.calls), alone=alone / 1000 / max(1, told.calls),
        rate=told.calls / told.seconds, p50=told.p50, p99=told.p99,
        refused=told.refused, busy=used / 1e9 / told.seconds, load=told.cpu_s / told.seconds,
        backend=behind / 1e9 / told.seconds, others=max(0.0, others) / told.seconds,
        size=told.size, rss=rss_mb(own),
    )  # fmt: skip


def answers(call: Call, target: Target, expected: bytes) -> int:
    """The size of the target's answer to a call, its head included.

    Raises:
        RuntimeError: it does not hold what is expected; the message says what came instead.
    """
    said, fields = post(target.urls[0], call.body, call.fields(target.sessions[0]))
    if expected not in said:
        raise RuntimeError(f"{target.name} answered {call.tool} with {said[:500]!r}")
    return (
        len("HTTP/1.1 200 OK\r\n\r\n")
        + sum(len(f"{name}: {value}\r\n") for name, value in fields.items())
        + len(said)
    )
