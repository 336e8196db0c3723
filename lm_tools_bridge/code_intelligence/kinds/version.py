"""Asks the programs of language servers for their versions. Blocks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

TIME_S: Final = 5.0
"""A program prints its version at once; only those that start a Java machine take a second or two."""
_MAX_OUTPUT: Final = 10_000
"""Bytes: the version stands in the first lines."""
_VERSION: Final = re.compile(rb"\d+\.\d+[\w.+-]*")
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "gopls": ("version",),
    "go-vet": ("version",),
    **dict.fromkeys(
        (
            "cargo-check",
            "clangd",
            "eslint-check",
            "mypy",
            "pyrefly",
            "ruff",
            "rust-analyzer",
            "tsc",
            "ty",
            "typescript",
            "typescript-language-server",
            "vtsls",
            "zls",
        ),
        ("--version",),
    ),
}
"""Others would start as a server, and wait for a client."""


def version_of(name: str, program: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """The version of a kind's program; None if it does not say within five seconds.

    Args:
        name: the kind's.
        program: the beginning of its command line. It must be allowed to run.
        environ: its environment.
    """
    arguments = _ARGUMENTS.get(name)
    if arguments is None:
        return None
    try:
        ended = subprocess.run(
            [*program, *arguments],
            capture_output=True,
            check=False,
            cwd="/",  # in the project, rustup would choose the toolchain that the project names
            env=environ,
            stdin=subprocess.DEVNULL,
            timeout=TIME_S,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = _VERSION.search(ended.stdout[:_MAX_OUTPUT])
    return None if version is None else version[0].decode("ascii", "replace")[:40]
