"""Reads the words after `lmtb agent`, and defines the exit codes of a session."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

# as shells report a program that a signal ended: 128 and the number of SIGINT or SIGTERM
CANCELLED: Final = 130
TERMINATED: Final = 143
"""A session was ended by SIGTERM, or its terminal is gone."""
USAGE_EXIT: Final = 2
"""That of argparse, which ends the program with it for words that do not fit."""
TURN_EXITS: Final[Mapping[str, int]] = {
    "completed": 0, "limit_reached": 3, "repeated_calls": 3, "provider_failed": 4, "cancelled": CANCELLED,
}  # fmt: skip
"""The exit code of one turn by how it ended, an `Ending`, whose module loads only with the agent."""
STDIN: Final = "-"
"""In the place of the text of a turn: read it from standard input."""
_LONGEST: Final = 8 * 1024 * 1024
"""More than any model's context window takes; an endless input must not fill the memory."""
VERBS: Final = ("session", "serve", "acp", "config", "list")


class Arguments(argparse.Namespace):
    """What was asked for. The folders are those of the user's manager."""

    verb: str
    provider: str | None
    model: str | None
    resume: bool
    prompt: str | None
    json: bool
    allow: list[str]
    port: int
    origin: list[str]
    imported: Path | None
    config_dir: Path
    state_dir: Path
    runtime_dir: Path


def read_arguments(words: Sequence[str]) -> Arguments:
    """The arguments. Wrong ones end the program with exit code 2 and the usage."""
    parser = argparse.ArgumentParser(
        prog="lmtb agent",
        description="Talk to a model that uses the tools of the project in the current folder.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "verb", nargs="?", default="session", choices=VERBS,
        help="session (default); serve: offer the tools over WebSockets; acp: work in an editor; "
        "config: choose provider and model; list: the tools",
    )  # fmt: skip
    parser.add_argument("--provider", metavar="P", help="the provider, instead of default_provider")
    parser.add_argument("--model", metavar="M", help="the model, instead of the configured one")
    parser.add_argument(
        "--continue", dest="resume", action="store_true", help="go on with the last session of this folder"
    )
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="run one turn with this text, and end")
    parser.add_argument("--json", action="store_true", help="with -p: one event a line; else one object")
    parser.add_argument(
        "--allow", metavar="NAME", action="append", default=[],
        help="with -p: a tool that may run without a question; with serve: one that is offered",
    )  # fmt: skip
    parser.add_argument("--port", type=int, default=0, help="with serve: the port; by default a free one")
    parser.add_argument(
        "--origin", action="append", default=[], help="with serve: a web page that may connect"
    )
    parser.add_argument(
        "--import", dest="imported", metavar="FILE", type=Path, help="with config: take over an .ollmcpc.json"
    )
    for folder in ("config", "state", "runtime"):
        parser.add_argument(f"--{folder}-dir", type=Path, required=True, help=argparse.SUPPRESS)
    arguments = parser.parse_args(words, namespace=Arguments())
    if arguments.prompt is None and arguments.allow and arguments.verb != "serve":
        parser.error("--allow needs -p TEXT: in a session you are asked")
    if arguments.imported is not None and arguments.verb != "config":
        parser.error("--import belongs to: lmtb agent config --import FILE")
    return arguments


def text_of(prompt: str) -> str:
    """The text of the turn: as given, or from standard input. Bytes that are not UTF-8 are replaced."""
    content = sys.stdin.buffer.read(_LONGEST) if prompt == STDIN else os.fsencode(prompt)
    return content.decode("utf-8", "replace")
