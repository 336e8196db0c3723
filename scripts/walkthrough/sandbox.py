"""A user with an empty home folder, a port of their own, and a terminal at which commands are typed."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from lm_tools_bridge.machine.process_ending import read_variables

PATIENCE_S: Final = 45.0
COLUMNS, ROWS = 100, 40
DOCUMENTED_PORT: Final = "47100"
ESCAPES: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_PROGRESS: Final = re.compile(
    r"^(Starting \d+ servers? to list | *\S+: ready after )[^\n]*\n",
    re.MULTILINE,
)
"""Lines that are only there where something takes longer."""
_MOVING_MARK: Final = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h\r\x1b\[1A\x1b\[2K", re.DOTALL)
"""What is drawn while somebody waits, without the cursor, and then erased."""
_REMEMBER: Final = 'code=$?; pwd >"$HOME/.folder"; exit $code'
_QUESTION: Final = re.compile(rb"\[(y/N|Y/n)\]:(\x1b\[[0-9;]*m| )*$")
_INHERITED: Final = ("SSL_CERT_FILE",)


@dataclass(frozen=True)
class Answer:
    """What a command line ended with and printed, escape sequences included."""

    code: int
    raw: str

    @property
    def text(self) -> str:
        """What it printed, without colours, and without lines that were overwritten."""
        lines = ESCAPES.sub("", self.raw.replace("\r\n", "\n")).split("\n")
        return "\n".join(line.rpartition("\r")[2] for line in lines)


class Sandbox:
    """One user. The programs they start have their home folder, by which they are found at the end."""

    def __init__(self, program: Sequence[str], *, colours: bool) -> None:
        self.home = self._folder = Path(tempfile.mkdtemp(prefix="lmtb-")).resolve()
        self.port = _free_port()
        self._programs = self.home / ".local" / "bin"
        self._programs.mkdir(parents=True)
        for name in ("lmtb", "lm-tools-bridge"):
            _write_program(self._programs / name, program)
        self._environ = {
            **{name: os.environ[name] for name in _INHERITED if name in os.environ},
            "PATH": f"{self._programs}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "SHELL": "/bin/sh",
            "USER": "ada",
            "LANG": "C.UTF-8",
            "TERM": "xterm-256color",
            "LMTB_HTTP_PORT": str(self.port),
            **({} if colours else {"NO_COLOR": "1"}),
        }

    def type(self, command: str, answer: str = "") -> Answer:
        """Type a command line, and `answer` when it asks whether to go on; wait until it ends.

        `cd` lasts, as at a terminal; the first folder is the home.

        Raises:
            TimeoutError: it did not end in time; with what it printed.
        """
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'{command}\n{_REMEMBER}'], cwd=self._folder, env=self._environ,
            stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            printed = _all_of(ours, process, answer)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(ours)
        self._folder = Path((self.home / ".folder").read_text("utf-8").removesuffix("\n"))
        return Answer(process.returncode, self.as_documented(printed))

    def as_documented(self, text: str) -> str:
        """The text with `~` for the home folder and the documented port, without progress."""
        text = text.replace(str(self.home), "~").replace(str(self.port), DOCUMENTED_PORT)
        return _PROGRESS.sub("", _MOVING_MARK.sub("", text))

    def as_here(self, text: str) -> str:
        """A text of the documentation with this sandbox's port."""
        return text.replace(DOCUMENTED_PORT, str(self.port))

    def write(self, path: str, text: str) -> None:
        """Write a file of the home folder."""
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def processes(self) -> list[psutil.Process]:
        """Every living process of this user."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if (
                    read_variables(process.pid).get("HOME") == str(self.home)
                    and process.status() != psutil.STATUS_ZOMBIE
                ):
                    found.append(process)
        return found

    def close(self) -> None:
        """End what runs, and remove the home folder."""
        with suppress(TimeoutError):
            self.type("lmtb stop")
        for process in self.processes():
            with suppress(psutil.Error):
                process.kill()
        shutil.rmtree(self.home, ignore_errors=True)


@contextmanager
def sandbox(*program: str, colours: bool = False) -> Iterator[Sandbox]:
    """A sandbox that is closed at the end. `program` is what its Python runs as `lmtb`."""
    made = Sandbox(program or ("-I", "-m", "manager"), colours=colours)
    try:
        yield made
    finally:
        made.close()


def _write_program(file: Path, arguments: Sequence[str]) -> None:
    file.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, *arguments])} "$@"\n')
    file.chmod(0o755)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _all_of(descriptor: int, process: subprocess.Popen[bytes], answer: str) -> str:
    """All that is printed until the last program has closed the terminal, or the command has ended.

    A question gets the answer.
    """
    os.set_blocking(descriptor, False)
    deadline, printed = time.monotonic() + PATIENCE_S, b""
    while True:
        has_ended = process.poll() is not None
        try:
            while chunk := os.read(descriptor, 65536):
                printed += chunk
                if answer and _QUESTION.search(printed):
                    os.write(descriptor, f"{answer}\n".encode())
        except BlockingIOError:
            if has_ended:
                break
        except OSError:  # EIO: the other side is closed
            process.wait(PATIENCE_S)
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"did not end within {PATIENCE_S:g} s:\n{printed.decode(errors='replace')}")
        time.sleep(0.01)
    return printed.decode("utf-8", "replace")
