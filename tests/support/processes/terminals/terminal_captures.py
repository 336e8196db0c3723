"""What a person sees who runs verbs at a terminal of some size: the lines and the screen."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import pyte
from wcwidth import wcswidth

from manager.cli.verbs import cli

_MOVING_MARK = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h\r\x1b\[1A\x1b\[2K", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PROGRAM = Path(__file__).with_name("terminal_program.py")


@dataclass(frozen=True)
class Run:
    """One run of `lmtb`."""

    words: tuple[str, ...]
    columns: int
    rows: int
    cwd: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    typed: str = ""


@dataclass(frozen=True)
class Capture:
    """What a run showed.

    Attributes:
        output: all of it, with escapes.
    """

    run: Run
    code: int
    seconds: float
    output: str

    @property
    def lines(self) -> list[str]:
        """The lines as they were written, before the terminal breaks them."""
        plain = _ESCAPES.sub("", _MOVING_MARK.sub("", self.output)).replace("\r\n", "\n")
        return [line.rpartition("\r")[2] for line in plain.split("\n")]

    @property
    def too_long(self) -> list[str]:
        """Lines that the terminal has to break, but for single words and commands, which are to be copied."""
        wide = [line for line in self.lines if wcswidth(line) > self.run.columns]
        return [line for line in wide if not re.fullmatch(r"\s*(\S+|lmtb .*)\s*", line)]

    def screen(self) -> list[str]:
        """All that a terminal of this width shows, line by line."""
        screen = pyte.Screen(self.run.columns, 400)
        pyte.Stream(screen).feed(self.output)
        return [line.rstrip() for line in screen.display]


def captured(environ: Mapping[str, str], runs: Sequence[Run]) -> list[Capture]:
    """Carry out all runs, some at a time, in an environment that each can add to."""
    requests = [
        {
            "words": run.words, "columns": run.columns, "rows": run.rows, "cwd": str(run.cwd),
            "environ": dict(run.environ), "typed": run.typed,
        }
        for run in runs
    ]  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "-I", str(_PROGRAM)],
        env={"TERM": "xterm-256color", **environ},
        input=json.dumps(requests).encode(),
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    return [
        Capture(run, one["code"], one["seconds"], one["output"])
        for run, one in zip(runs, json.loads(ended.stdout), strict=True)
    ]


def keep(captures: Sequence[Capture], folder: Path) -> None:
    """Write the screens into a folder, one file for each capture."""
    for number, capture in enumerate(captures):
        name = re.sub(r"[^\w-]+", "_", " ".join(capture.run.words))
        file = folder / str(capture.run.columns) / f"{name}.{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        screen = "\n".join(capture.screen()).rstrip()
        file.write_text(f"{screen}\n[exit code {capture.code}, {capture.seconds:.2f} s]\n")


def all_verbs() -> Iterator[tuple[str, ...]]:
    """Every verb that can be run, with its group: ("tools", "why")."""
    yield from _below(cli, click.Context(cli), ())


def _below(
    command: click.Command, context: click.Context, words: tuple[str, ...]
) -> Iterator[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        yield words
        return
    if command.invoke_without_command and words:
        yield words
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        if not below.hidden:
            yield from _below(below, click.Context(below, parent=context), (*words, name))
