"""A workspace with every kind of content that needs trust, and a scripted terminal."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.processes.timeouts import within
from workspace_server.command.__main__ import cli


@dataclass(frozen=True)
class Home:
    """The user's folders, a workspace, and a folder of programs."""

    root: Path
    config_dir: Path
    state_dir: Path
    bin: Path
    options: tuple[str, ...] = ()

    def arguments(self, *arguments: str | Path) -> list[str]:
        folders = ["--config-dir", self.config_dir, "--state-dir", self.state_dir, *self.options]
        return [str(one) for one in (*folders, *arguments)]

    def run(self, verb: str, *arguments: str | Path, text: str | bytes | None = None) -> Result:
        """What the verb says and its exit code; nobody sits at a terminal."""
        return CliRunner().invoke(cli, self.arguments(verb, *arguments), input=text, catch_exceptions=False)

    def json(self, verb: str, *arguments: str | Path) -> dict[str, Any]:
        result = self.run(verb, *arguments, "--json")
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def states(self) -> dict[str, str]:
        return {one["key"]: one["state"] for one in self.json("trust", self.root)["items"]}

    def write(self, relative: str, text: str) -> Path:
        path = self.root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def script(self, name: str, text: str = "print(1)\n") -> Path:
        folder = f".lm-tools-bridge/tools/{name}"
        self.write(f"{folder}/tool.toml", f'description = "{name} does it"\nscript = "run.py"\n')
        return self.write(f"{folder}/run.py", text)

    def servers(self, **servers: dict[str, Any]) -> None:
        self.write(".mcp.json", json.dumps({"mcpServers": servers}))

    def program(self, name: str) -> Path:
        path = self.bin / name
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
        return path

    @contextmanager
    def at_terminal(self, verb: str, *arguments: str | Path) -> Iterator[Terminal]:
        """The verb in a process of its own, with a person at a real terminal."""
        ours, theirs = pty.openpty()
        command = [sys.executable, "-I", "-m", "workspace_server.command", *self.arguments(verb, *arguments)]
        process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        try:
            yield Terminal(ours, theirs, process)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
            os.close(theirs)


@dataclass
class Terminal:
    """The person's end."""

    descriptor: int
    other_end: int
    process: subprocess.Popen[bytes]
    seen: bytes = b""

    def read_until(self, text: bytes) -> str:
        deadline = time.monotonic() + within(5)
        while text not in self.seen:
            ready, _, _ = select.select([self.descriptor], [], [], deadline - time.monotonic())
            assert ready, self.seen
            self.seen += os.read(self.descriptor, 65536)
        return self.seen.decode()

    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.other_end)[3] & termios.ECHO)

    def type(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def ends_with(self) -> int:
        return self.process.wait(within(5))


def make_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A workspace without anything in it, and a folder of programs on the PATH."""
    home = Home(tmp_path / "ws", tmp_path / "config", tmp_path / "state", tmp_path / "bin")
    home.root.mkdir()
    home.bin.mkdir()
    home.program("serve-gh")  # a name that no machine has
    monkeypatch.setenv("PATH", f"{home.bin}:/usr/bin:/bin")
    monkeypatch.setenv("SHELL", str(tmp_path / "none"))  # what the machine's shell would say is no matter
    monkeypatch.setenv("NO_COLOR", "1")
    return home
