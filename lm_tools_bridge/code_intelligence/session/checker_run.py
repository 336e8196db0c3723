"""Runs a checker over a project once, within bounds of time and output."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import FileDiagnostics
from lm_tools_bridge.code_intelligence.server_process.launch import Launch
from lm_tools_bridge.code_intelligence.session.checker_outputs import OUTPUTS, diagnostics
from lm_tools_bridge.code_intelligence.specification import Check
from lm_tools_bridge.code_intelligence.tree import disk_text
from workspace_server.results import clean_text
from workspace_server.sources.builtin.search.process import Exit, run
from workspace_server.sources.builtin.search.query import EngineUnavailable

DEADLINE_S: Final = 300.0
"""A first `cargo check` or `tsc` of a large project takes minutes."""
MAX_OUTPUT: Final = 16 * 1024 * 1024
"""Bytes of output: some 50,000 diagnostics. A checker that prints more is ended."""
_MAX_WORDS: Final = 300
"""Characters of a failure's own words in a reason, which is one line."""
_REFERENCES: Final = '"references"'
_QUIET: Final = {"NO_COLOR": "1", "CARGO_TERM_COLOR": "never", "FORCE_COLOR": "0"}


@dataclass(frozen=True, slots=True)
class Result:
    """What one run found: files with diagnostics, and how far that is the whole truth."""

    files: Sequence[FileDiagnostics]
    freshness: Freshness


@dataclass(frozen=True, slots=True)
class _Ended:
    """How the program ended; `code` is None if it was ended because it printed too much."""

    code: int | None
    output: str
    stderr: str


async def check_project(launch: Launch, check: Check, deadline_s: float = DEADLINE_S) -> Result:
    """Run the checker to its end, and read what it found. Never fails; a cancelled run leaves no process.

    Args:
        launch: its command, environment and folder.
        check: how it is run, and how it prints.
        deadline_s: how long it may take.
    """
    name = launch.specification.name
    try:
        async with asyncio.timeout(deadline_s):
            ended = await _run(launch, ())
            if check.if_no_target and check.no_target in ended.stderr:
                ended = await _run(launch, check.if_no_target)
    except EngineUnavailable as failure:
        return Result((), Freshness(name, "crashed", f"it does not start: {failure}; {_step(launch)}"))
    except TimeoutError:
        reason = f"it was ended because it took more than {deadline_s:g} s; {_step(launch)}"
        return Result((), Freshness(name, "unknown", reason))
    return await asyncio.to_thread(_result, launch, check, ended)


async def _run(launch: Launch, more: tuple[str, ...]) -> _Ended:
    output = bytearray()

    def consume(chunk: bytes) -> bool:
        output.extend(chunk)
        return len(output) <= MAX_OUTPUT

    command = launch.command
    environ = {**command.env, **_QUIET}
    ended: Exit = await run([*command.argv, *more], Path(command.cwd), consume, environ=environ)
    return _Ended(ended.code, output[:MAX_OUTPUT].decode("utf-8", "replace"), ended.stderr)


def _result(launch: Launch, check: Check, ended: _Ended) -> Result:
    """Read the output, and the files that it names. Blocks."""
    output, name = OUTPUTS[check.format], launch.specification.name
    text = ended.stderr if output.on_stderr else ended.output
    by_path = diagnostics(output, text, check.format, Path(launch.command.cwd))
    files = [_with_text(path, items) for path, items in by_path.items()]
    freshness = _freshness(launch, check, ended, bool(files))
    unseen = _unseen(launch, check) if freshness.state == "fresh" else ""
    return Result(files, Freshness(name, "partial", unseen) if unseen else freshness)


def _unseen(launch: Launch, check: Check) -> str:
    """What of the project the program did not look at, in a sentence; empty for nothing. Blocks."""
    cwd = Path(launch.command.cwd)
    if len(launch.folders) > 1:
        return f"it checks {cwd} only"
    with suppress(OSError):
        if check.format == "tsc" and _REFERENCES in disk_text.read_file(cwd / "tsconfig.json").text:
            return "it does not check the projects that tsconfig.json refers to; run tsc -b"
    return ""


def _step(launch: Launch) -> str:
    return f"run `{shlex.join(launch.command.argv)}` in {launch.command.cwd} to see why"


def _freshness(launch: Launch, check: Check, ended: _Ended, has_findings: bool) -> Freshness:
    name = launch.specification.name
    if ended.code is None:
        return Freshness(
            name, "partial", f"it printed more than {MAX_OUTPUT // 1024**2} MiB; the rest is not known"
        )
    if ended.code == 0:
        return Freshness(name, "fresh")
    if not has_findings:
        words = clean_text(" ".join((ended.stderr or ended.output).split())[-_MAX_WORDS:])
        reason = f"it failed with exit code {ended.code}{': ' if words else ''}{words}; {_step(launch)}"
        return Freshness(name, "unknown", reason)
    if check.stops_at_errors:
        return Freshness(name, "partial", "after errors it does not check what depends on them")
    return Freshness(name, "fresh")


def _with_text(path: Path, items: Sequence[Mapping[str, Any]]) -> FileDiagnostics:
    try:
        lines: Sequence[str] | None = disk_text.read_file(path).lines()
        path = Path(os.path.realpath(path))
    except (OSError, ValueError):  # gone, or a name that no file can have
        lines = None
    return FileDiagnostics(path, lines, items)
