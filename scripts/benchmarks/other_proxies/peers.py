"""Compares other MCP proxies and nginx with the manager: a forwarded call of 200 B in a session.

Behind each proxy is a stdio server that takes almost no time; it has another processor, and its time is not
counted. The manager is measured twice: the hop only, and with a workspace server and the same stdio server.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from scripts.benchmarks.environment import nginx, own_manager
from scripts.benchmarks.environment.processes import cores, descendants, running, wait_for
from scripts.benchmarks.forwarding import hop
from scripts.benchmarks.load.comparison import compare
from scripts.benchmarks.load.wrk import Call, Target, check_answer, measure
from scripts.benchmarks.other_proxies.installing import NotInstallable, installed, version
from scripts.benchmarks.other_proxies.peer import BY_REST, PEERS, SERVER, TOOL, Peer
from scripts.benchmarks.plan import Plan
from scripts.benchmarks.results.rounds import Measured, as_data, ratio
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section

CONNECTIONS = (1, 16)
WARM_UP_S = 3
"""Seconds of calls before the measurement, because Node.js compiles while it runs."""
OURS, WITH_SERVER = "ours, hop only", "ours, with the stdio server"
COLUMNS = ("proxy", "µs/call", "calls/s", "ours ×", "p50 µs", "p99 µs", "RSS MB", "refused")
EXPECTED = b"x" * 200

Found = dict[int, dict[str, Measured]]


@dataclass
class Candidates:
    """The proxies: the call and target of each that runs, and the reason for each that does not."""

    targets: dict[str, tuple[Call, Target]] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    peers: list[str] = field(default_factory=list)


def run(plan: Plan) -> Section:
    """Measure all proxies that can be installed."""
    found: Found = {}
    with _candidates(plan) as candidates:
        for name, (call, target) in candidates.targets.items():
            plan.say(f"peers: {name} warms up")
            measure(call, max(CONNECTIONS), target, replace(plan, seconds=WARM_UP_S))
        for number in CONNECTIONS:
            plan.say(f"peers: c={number}")
            found[number] = compare(candidates.targets, number, plan, EXPECTED)
    data = {f"c={number}": as_data(each) for number, each in found.items()}
    return Section("peers", text(found, candidates.absent), data, figures(found, candidates.peers))


@contextlib.contextmanager
def _candidates(plan: Plan) -> Iterator[Candidates]:
    candidates = Candidates()
    with contextlib.ExitStack() as stack:
        ready = stack.enter_context(hop.testbed(plan))
        forwarded = Call("legacy", "200B.json")
        candidates.targets |= {
            "nginx": (forwarded, ready.nginx["legacy"]),
            OURS: (forwarded, ready.ours["legacy"]),
        }
        candidates.targets[WITH_SERVER] = stack.enter_context(_whole_chain(plan))
        for peer in PEERS:
            try:
                plan.say(f"peers: installing and starting {peer.name}")
                name, target = stack.enter_context(_peer(plan, peer))
                candidates.targets[name] = peer.call, target
                candidates.peers.append(name)
            except (NotInstallable, TimeoutError, RuntimeError, OSError) as gone:
                candidates.absent[peer.name] = str(gone)
        yield candidates


@contextlib.contextmanager
def _peer(plan: Plan, peer: Peer) -> Iterator[tuple[str, Target]]:
    at, port = installed(peer), nginx.free_port()
    log = plan.folder / f"{peer.name.partition(' ')[0]}-{peer.registry}.log"
    with running(*peer.command(at, port), on=cores().measured, log=log, cwd=plan.folder) as one:

        def is_reachable() -> bool:
            if one.poll() is not None:
                raise RuntimeError(f"ended at its start: {log.read_text()[-200:]}")
            return nginx.reachable(port)

        wait_for(is_reachable, what=peer.name)
        url = f"http://127.0.0.1:{port}{peer.path}"
        session = (
            wait_for(lambda: own_manager.opened_session(url), what=peer.name) if peer.with_sessions else ""
        )
        target = Target(peer.name, one.pid, [url], [session])
        yield f"{peer.name} {version(peer, at)}", _with_its_server(peer.call, target)


def _with_its_server(call: Call, target: Target) -> Target:
    """Wait for an answer, move the stdio servers to their processor, and exclude them from the target."""

    def answered() -> bool:
        try:
            check_answer(call, target, EXPECTED)
        except RuntimeError:
            return False
        return True

    wait_for(answered, what=target.name)
    behind = [one.pid for one in descendants(target.pid) if SERVER[-1] in one.cmdline()]
    for pid in behind:
        os.sched_setaffinity(pid, cores().backend)
    return Target(target.name, target.pid, target.urls, target.sessions, behind)


@contextlib.contextmanager
def _whole_chain(plan: Plan) -> Iterator[tuple[Call, Target]]:
    folder = plan.folder / "whole"
    project = own_manager.project(plan.folder / "whole-project")
    (folder / "config").mkdir(parents=True)
    entry = f'[[mcp.stdio_servers]]\nnamespace = "bench"\ncommand = {json.dumps(SERVER)}\n'
    (folder / "config" / "workspace.toml").write_text(entry)
    with own_manager.manager(folder, cores().measured) as one:
        call = Call("legacy", f"bench__{TOOL}")
        target = Target(WITH_SERVER, one.pid, [one.address()], [own_manager.bound_session(one, project)])
        yield call, _with_its_server(call, target)


def text(found: Found, absent: Mapping[str, str]) -> str:
    """A table for each number of connections, and the proxies that could not be measured."""
    parts = []
    for number, each in found.items():
        rows = [
            (
                name,
                one.cpu,
                one.rate,
                f"{ratio(each[OURS].rate, one.rate):.1f}",
                one.p50,
                one.p99,
                one.rss,
                int(one.refused),
            )
            for name, one in each.items()
        ]
        parts.append(f"{number} connection{'s' * (number > 1)}:\n\n{table(COLUMNS, rows)}")
    parts += [f"Not measured: {name} ({reason})." for name, reason in absent.items()]
    return "\n\n".join(parts)


def figures(found: Found, peers: list[str]) -> dict[str, float]:
    """Calls per second of our hop relative to the best proxy, and to the best one that is called over MCP."""
    each = found[max(CONNECTIONS)]
    kinds = {"peers": peers, "peers mcp": [name for name in peers if BY_REST not in name]}
    return {
        kind: ratio(each[OURS].rate, max(each[name].rate for name in names))
        for kind, names in kinds.items()
        if names
    }
