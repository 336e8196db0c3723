"""Calls a tool in a session several times, and prints the modules that every call entered.

The calls reach a real manager, which starts a real workspace server; both are traced. The ids of the calls
are too long for caches of earlier calls, so each call takes the general way.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lm_tools_bridge.protocol import headers, jsonrpc, names
from scripts.benchmarks.cases import REVISION
from scripts.benchmarks.environment.own_manager import POST_HEADERS, bound_session, manager_of

PROGRAMS = ("manager", "workspace_server")
WARMING, TRACED = 3, 4
"""Calls before the traced ones, which fill caches of folders and heads; and the traced ones."""
LONG_ID = 64
"""Characters of an id that no cache of calls takes (`lm_tools_bridge/protocol/call_pattern.py`)."""
SETTLE_S = 0.1
"""Seconds in which a program finishes its work after it has answered."""
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "lm_readFile": {"filePath": "read.txt"},
    "lm_findFiles": {"query": "**/*.txt"},
    "lm_findTextInFiles": {"query": "text"},
}


class Entry(NamedTuple):
    """A function that was entered at a monotonic time."""

    at: float
    module: str
    function: str


class Trace(NamedTuple):
    """The modules that each traced call entered in one program, in the order of the last one."""

    modules: tuple[str, ...]
    functions: int


def main() -> None:
    """Trace the call that the command line names."""
    parser = argparse.ArgumentParser(prog="scripts/trace-call", description=__doc__)
    parser.add_argument("--tool", default="lm_readFile", choices=sorted(ARGUMENTS))
    parser.add_argument("--counts", action="store_true", help="print the numbers alone")
    options = parser.parse_args()
    for program, trace in trace_call(options.tool).items():
        print(f"{program}: {len(trace.modules)} modules, {trace.functions} functions")
        if not options.counts:
            print("".join(f"  {module}\n" for module in trace.modules), end="")


def trace_call(tool: str) -> dict[str, Trace]:
    """The trace of a call of this tool in a session, by program."""
    with tempfile.TemporaryDirectory(prefix="lmtb-trace-") as name:
        folder = Path(name)
        project = folder / "project"
        (project / ".git").mkdir(parents=True)
        (project / "read.txt").write_text("a text\n", "utf-8")
        times = list(_calls(folder, project, tool))
        return {
            program: _common_trace(_entries(folder.glob(f"{program}-*.trace")), times) for program in PROGRAMS
        }


def _calls(folder: Path, project: Path, tool: str) -> Iterator[tuple[float, float]]:
    """Make the calls with a manager of their own; yield when each traced one began and ended."""
    program = Path(__file__).with_name("traced_program.py")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{program}" "{folder}" "$@"\n', "utf-8")
    python.chmod(0o700)
    command = (str(python), "-I", "-m", "manager", "serve")
    processors = frozenset(os.sched_getaffinity(0))
    with manager_of(command, folder, processors, {"fork_servers": False}) as running:
        fields = POST_HEADERS | {headers.VERSION: REVISION, headers.SESSION: bound_session(running, project)}
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", running.port)) as connection:
            for number in range(WARMING + TRACED):
                began = time.monotonic()
                connection.request("POST", names.MCP_PATH, _body(tool, number), fields)
                answer = connection.getresponse().read()
                time.sleep(SETTLE_S)
                if number >= WARMING:
                    yield began, time.monotonic()
        if b'"isError":true' in answer or b'"error"' in answer:
            raise RuntimeError(answer.decode())


def _body(tool: str, number: int) -> bytes:
    identity = jsonrpc.dumps(f"{number}{'-' * LONG_ID}")
    return jsonrpc.request(identity, names.TOOLS_CALL, {"name": tool, "arguments": ARGUMENTS[tool]})


def _common_trace(entries: list[Entry], times: list[tuple[float, float]]) -> Trace:
    """What all calls have entered: whatever only one of them met is not part of its way."""
    calls = [[entry for entry in entries if begin <= entry.at < end] for begin, end in times]
    common = set.intersection(*({(entry.module, entry.function) for entry in call} for call in calls))
    modules = {module for module, _ in common}
    in_order = dict.fromkeys(entry.module for entry in calls[-1] if entry.module in modules)
    return Trace(tuple(in_order), len(common))


def _entries(files: Iterable[Path]) -> list[Entry]:
    lines = [line.split() for file in files for line in file.read_text("utf-8").splitlines()]
    return [Entry(float(at), module, function) for at, module, function in lines]


if __name__ == "__main__":
    main()
