"""Generates load with wrk, which sends prepared requests with increasing ids, and reads its results.

wrk runs one thread, or one for each connection. The section `hop` reports how near wrk is to its own limit.
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

from lm_tools_bridge.protocol import headers, jsonrpc, names
from lm_tools_bridge.protocol.inbound import modern_meta
from scripts.benchmarks.cases import MODERN, REVISION
from scripts.benchmarks.environment.machine import busy_s
from scripts.benchmarks.environment.own_manager import CLIENT, POST_HEADERS, post
from scripts.benchmarks.environment.processes import cores, cpu_ns, process_tree, rss_mb, start
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.rounds import Measured

ID = b"1000000"
"""Placeholder that wrk replaces by a counter: in a session, calls in flight must have different ids."""

LUA_REQUESTS = """
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

NEXT_HEAD, OWN_HEAD = "turn = turn % #heads + 1", "turn = (turn - 1) % #heads + 1"


@dataclass(frozen=True)
class Target:
    """A process that is called: its pid, and the addresses and sessions that the calls use in turns.

    `behind`: pids of the servers behind it, whose time is not counted as its own. `sticky`: each connection
    keeps one address and session, as a client does; otherwise each call uses the next one.
    """

    name: str
    pid: int
    urls: Sequence[str]
    sessions: Sequence[str] = ("",)
    behind: Sequence[int] = ()
    sticky: bool = False


@dataclass(frozen=True)
class Call:
    """A `tools/call` of an era: the name of the tool and its arguments."""

    era: str
    tool: str
    arguments: Mapping[str, object] = field(default_factory=lambda: {"text": "x" * 200})

    @property
    def body(self) -> bytes:
        """The body of the request."""
        params: dict[str, object] = {"name": self.tool, "arguments": self.arguments}
        if self.era == "modern":
            params["_meta"] = modern_meta(jsonrpc.raw({}), jsonrpc.raw(CLIENT))
        return jsonrpc.request(ID, names.TOOLS_CALL, params)

    def fields(self, session: str) -> dict[str, str]:
        """The header fields of the request, in addition to `POST_HEADERS`."""
        fields = {headers.VERSION: MODERN if self.era == "modern" else REVISION}
        fields |= {headers.METHOD: names.TOOLS_CALL, headers.NAME: self.tool}
        return fields | ({headers.SESSION: session} if session and self.era == "legacy" else {})


def head(url: str, fields: Mapping[str, str], length: int) -> str:
    """The head of a POST request to the address, with these header fields and content length."""
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    lines = [f"POST {target} HTTP/1.1", f"Host: {parts.netloc}", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in {**POST_HEADERS, **fields}.items()]
    return "\r\n".join([*lines, "", ""])


def lua_script(heads: Sequence[str], body: bytes, *, delay_ms: int = 0, sticky: bool = False) -> str:
    """The Lua script for wrk: each request is the next of the heads and the body with the next id.

    `sticky`: each thread keeps one head. `delay_ms`: the pause before each request.
    """
    before, _, behind = body.decode().partition(ID.decode())
    listed = ",\n".join(json.dumps(each + before) for each in heads)
    delay = f"delay = function() return {delay_ms} end" if delay_ms else ""
    texts = f"local heads = {{\n{listed}\n}}\nlocal behind = {json.dumps(behind)}\n"
    return texts + LUA_REQUESTS.format(id=ID.decode(), delay=delay, turn=OWN_HEAD if sticky else NEXT_HEAD)


def request_heads(target: Target, call: Call) -> list[str]:
    """The heads of the requests to a target, for its addresses and sessions in turns."""
    return [
        head(url, call.fields(session), len(call.body))
        for _, url, session in zip(
            range(max(len(target.urls), len(target.sessions))), cycle(target.urls), cycle(target.sessions)
        )
    ]


@dataclass(frozen=True)
class WrkResult:
    """The results of a run of wrk, and the processor time that wrk itself used."""

    calls: int
    seconds: float
    size: float
    p50: float
    p99: float
    refused: int
    cpu_s: float


@dataclass(frozen=True)
class WrkRun:
    """A running wrk."""

    process: subprocess.Popen[bytes]
    output: Path

    def wait(self) -> WrkResult:
        """Wait for the end and return the results."""
        _, status, used = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return parse_output(self.output.read_text(), used.ru_utime + used.ru_stime)


@contextlib.contextmanager
def wrk_load(
    folder: Path, url: str, lua: str, connections: int, seconds: int, *, threads: int = 1
) -> Iterator[WrkRun]:
    """Run wrk for `seconds`; kill it if the block ends earlier."""
    file = folder / f"load-{connections}.lua"
    file.write_text(lua)
    out = file.with_suffix(".out")
    command = (
        program(),
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
        yield WrkRun(one, out)
    finally:
        if one.returncode is None:
            one.kill()
            one.wait()


def parse_output(text: str, cpu_s: float) -> WrkResult:
    """Parse the output of wrk.

    Raises:
        RuntimeError: the output has no result line.
    """
    found = re.search(r"RESULT (\d+) (\d+) (\d+) ([\d.]+) ([\d.]+) (\d+)", text)
    if found is None:
        raise RuntimeError(f"wrk printed no result: {text}")
    calls, duration, size, p50, p99, refused = (float(one) for one in found.groups())
    return WrkResult(int(calls), duration / 1e6, size / max(1, calls), p50, p99, int(refused), cpu_s)


def program() -> str:
    """The path of wrk; empty if it is not installed."""
    return shutil.which("wrk") or ""


def version() -> str:
    """The version of wrk."""
    text = subprocess.run([program(), "-v"], capture_output=True, text=True, check=False).stdout
    return " ".join(text.split()[:2]).removeprefix("wrk ")


def measure(call: Call, connections: int, target: Target, plan: Plan) -> Measured:
    """Measure one round of calls."""
    heads = request_heads(target, call)
    if target.sticky:
        heads = heads[:: max(1, len(heads) // connections)]
    lua = lua_script(heads, call.body, sticky=target.sticky)
    threads = connections if target.sticky else 1
    return measure_during(
        lambda: wrk_load(plan.folder, target.urls[0], lua, connections, plan.seconds, threads=threads), target
    )


def measure_during(load: Callable[[], contextlib.AbstractContextManager[WrkRun]], target: Target) -> Measured:
    """Measure a target while the load runs."""
    own = [pid for pid in process_tree(target.pid) if pid not in target.behind] if target.pid else []
    all_before = busy_s()
    before, before_alone, before_behind = cpu_ns(own), cpu_ns(own[:1]), cpu_ns(target.behind)
    with load() as running:
        result = running.wait()
    used, alone = cpu_ns(own) - before, cpu_ns(own[:1]) - before_alone
    behind = cpu_ns(target.behind) - before_behind
    others = busy_s() - all_before - result.cpu_s - (used + behind) / 1e9
    return Measured(
        cpu=used / 1000 / max(1, result.calls), alone=alone / 1000 / max(1, result.calls),
        rate=result.calls / result.seconds, p50=result.p50, p99=result.p99,
        refused=result.refused, busy=used / 1e9 / result.seconds, load=result.cpu_s / result.seconds,
        backend=behind / 1e9 / result.seconds, others=max(0.0, others) / result.seconds,
        size=result.size, rss=rss_mb(own),
    )  # fmt: skip


def check_answer(call: Call, target: Target, expected: bytes) -> int:
    """Make one call and return the size of the answer, including its head.

    Raises:
        RuntimeError: the answer does not contain `expected`; the message quotes the answer.
    """
    answer, fields = post(target.urls[0], call.body, call.fields(target.sessions[0]))
    if expected not in answer:
        raise RuntimeError(f"{target.name} answered {call.tool} with {answer[:500]!r}")
    return (
        len("HTTP/1.1 200 OK\r\n\r\n")
        + sum(len(f"{name}: {value}\r\n") for name, value in fields.items())
        + len(answer)
    )
