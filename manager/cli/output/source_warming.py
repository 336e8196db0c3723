"""Starts the servers of a project once and waits for their tool lists, with a line for each.

The lists are stored, so that even a client's first request gets them without waiting.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.protocol.internal.source_states import DOWN, STARTING
from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.terminal.waiting import waiting
from lm_tools_bridge.text.printable import printable
from manager.cli.output.manager_access import ask_about
from manager.status_reading.responses import objects
from manager.status_reading.source_problems import shell_hint

WAIT_S: Final = 30.0
"""Longest wait; a server that needs more, for example to be downloaded, goes on by itself."""
POLL_S: Final = 0.25

Say = Callable[[str], object]


def warm_sources(root: Path, say: Say) -> None:
    """Start the servers of the workspace at `root`, if a manager runs, and wait until each has its tools.

    Never fails: trust is recorded already.
    """
    with waiting("waiting for the servers"):
        _warm(root, say)


def _warm(root: Path, say: Say) -> None:
    began = time.monotonic()
    starting: set[str] = set()
    is_first = True
    while time.monotonic() - began < WAIT_S:
        try:
            sources = {
                str(entry.get("id")): entry for entry in objects(ask_about("/inspect", root), "sources")
            }
        except Failure as failure:
            if failure.reason != "no_manager":
                say(f"Their tools could not be listed yet: {failure}")
            return
        now = {name for name, source in sources.items() if _is_starting(source)}
        ended = starting - now
        if is_first:  # some fail at once, such as a program that does not exist
            ended = {name for name, source in sources.items() if source.get("state") in DOWN}
        if is_first and now:
            say(f"Starting {_count_words(len(now))} to list the tools. Ctrl-C leaves that to the background.")
            _start(root, [name for name in now if sources[name].get("pid") is None])
        for name in sorted(ended):
            say(_line(name, sources.get(name, {}), time.monotonic() - began))
            if (hint := shell_hint(sources.get(name, {}), os.environ)) is not None:
                say(f"  {printable(hint)}")
        if not now:
            return
        starting, is_first = now, False
        time.sleep(POLL_S)
    say(f"Still starting: {', '.join(map(printable, sorted(starting)))}. See: lmtb servers")


def _is_starting(source: Mapping[str, Any]) -> bool:
    is_listed = source.get("lastRefresh") is not None or source.get("error")
    return source.get("state") in STARTING or (source.get("state") in ("ready", "idle") and not is_listed)


def _start(root: Path, names: list[str]) -> None:
    """Start servers that do not run: one whose list is stored would start with its first call only."""
    for name in names:
        with suppress(Failure):
            ask_about("/refresh", root, source=name)


def _count_words(number: int) -> str:
    return "1 server" if number == 1 else f"{number} servers"


def _line(name: str, source: Mapping[str, Any], seconds: float) -> str:
    if source.get("state") == "ready":
        count = source.get("toolCount")
        return f"  {printable(name)}: ready after {seconds:.1f} s, tools: {count}"
    if source.get("state") == "pending_trust":
        return f"  {printable(name)}: waits for your trust again; why: lmtb servers"
    return f"  {printable(name)}: {printable(source.get('state'))}: {printable(source.get('error') or '')}"
