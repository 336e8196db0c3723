"""Decides how a tool's program is started: Python by our interpreter, anything else directly. Pure.

No shell is involved. `#!` lines are read here, so that a private folder need not allow running files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from workspace_server.results import clean_text
from workspace_server.sources.scripts.definition.bundle import Bundle
from workspace_server.sources.scripts.definition.parameters import ManifestError


@dataclass(frozen=True, slots=True)
class Program:
    """The file to run.

    Attributes:
        name: the file, relative to the tool's folder.
        interpreter: program and argument of the `#!` line; empty if the file itself is executable.
        is_python: whether our own Python interpreter runs the file.
    """

    name: str
    interpreter: tuple[str, ...] = ()
    is_python: bool = False


def program(bundle: Bundle, script: str) -> Program:
    """Find out how to start the `script` of a manifest.

    Raises:
        ManifestError: the file is missing or empty, or cannot be run.
    """
    name = bundle.find(script)
    if name is None:
        raise ManifestError(f"script {script} is missing in the tool's folder, or is not a file")
    content = bundle.contents[name]
    if not content:
        raise ManifestError(f"script {script} is empty")
    if PurePosixPath(script).suffix == ".py":
        return Program(name, is_python=True)
    if content.startswith(b"#!"):
        return Program(name, _interpreter(script, content))
    if b"\0" not in content[:1024]:
        raise ManifestError(
            f"script {script} is not a .py file and does not begin with #! and an interpreter"
        )
    if name not in bundle.executable:
        raise ManifestError(f"script {script} is not executable; run chmod +x on it")
    return Program(name)


def _interpreter(script: str, content: bytes) -> tuple[str, ...]:
    """Split a `#!` line as the kernel does: a program and at most one argument."""
    line = content[2:].partition(b"\n")[0]
    if line.endswith(b"\r"):
        raise ManifestError(f"the #! line of {script} ends with CR LF; write the file with LF line ends")
    try:
        words = line.decode().strip().split(maxsplit=1)
    except UnicodeDecodeError:
        raise ManifestError(f"the #! line of {script} is not UTF-8") from None
    if not words or not words[0].startswith("/") or "\0" in line.decode():
        raise ManifestError(f"the #! line of {script} must name its interpreter by an absolute path")
    if clean_text(words[0]) != words[0]:
        raise ManifestError(f"the #! line of {script} contains invisible characters")
    return tuple(words)
