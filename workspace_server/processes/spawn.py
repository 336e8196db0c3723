"""Starts a child process with its pipes, through the launcher on Linux, and reports why a start failed."""

from __future__ import annotations

import errno
import functools
import importlib.util
import marshal
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.machinery import SourceFileLoader
from typing import Final

from lm_tools_bridge.machine import file_calls
from lm_tools_bridge.machine.windows_programs import batch_refusal, find_program
from workspace_server.processes.confinement import LAUNCHER, Confinement

IS_WINDOWS: Final = sys.platform == "win32"
LAUNCHED: Final = b"."
# Characters: a program's name comes from a file that anybody may have written.
_NAME_LIMIT: Final = 200
_MAKERS: Final = {
    "uv": "uv, https://docs.astral.sh/uv",
    "uvx": "uv, https://docs.astral.sh/uv",
    "node": "Node.js, https://nodejs.org",
    "npm": "Node.js, https://nodejs.org",
    "npx": "Node.js, https://nodejs.org",
    "bun": "Bun, https://bun.sh",
    "bunx": "Bun, https://bun.sh",
    "deno": "Deno, https://deno.com",
    "docker": "Docker, https://docs.docker.com/get-docker",
}
"""What brings the programs that most servers are started with: they may not be there at all."""


class ChildStartError(Exception):
    """A child process could not be started. The message names the program, never arguments or values."""


@dataclass(frozen=True, slots=True)
class Command:
    """A program to run.

    Attributes:
        argv: program and arguments; a program without a slash is looked up on the PATH in `env`.
        env: the child's complete environment.
        cwd: the child's working folder, absolute.
        confinement: its restrictions; None for none. Ignored where the system cannot enforce them.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    confinement: Confinement | None = None


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process just started, and our ends of its pipes. `status` carries the launcher's error, if any."""

    popen: subprocess.Popen[bytes]
    stdin: int | None
    stdout: int
    stderr: int
    status: int | None


def start_error(command: Command, reason: str) -> ChildStartError:
    """The error for a command that cannot be started; `reason` must not quote its arguments."""
    program = (command.argv[0] if command.argv else "(nothing)")[:_NAME_LIMIT]
    if reason == os.strerror(errno.ENOENT) and "/" not in program:
        if " " in program:
            name = program.partition(" ")[0]  # arguments can hold secrets
            step = f'write "{name}" as "command", and the rest under "args"'
            return ChildStartError(f'"command" is a program with arguments, "{name} …"; {step}')
        step = "lmtb doctor env shows that PATH"
        if program in _MAKERS:
            step = f"if it is not installed, get {_MAKERS[program]}; {step}"
        return ChildStartError(f'"{program}" is not on the PATH of servers; {step}')
    return ChildStartError(f'cannot start "{program}": {reason}')


def spawn(command: Command, marker: str, stdin: bool | bytes) -> Spawned:
    """Start the process; takes about 1 ms. With a launcher, `status` reports whether it succeeded.

    Call it from the thread that the child must not outlive.

    Raises:
        ChildStartError: the process could not be created.
    """
    if not command.argv:
        raise start_error(command, "there is no command")
    if IS_WINDOWS:
        command = _windows_command(command)
    with ExitStack() as ours, ExitStack() as theirs:
        try:
            pipes = _open_pipes(ours, theirs, stdin)
            popen = _popen(command, marker, pipes)
        except OSError as error:
            raise start_error(command, _error_text(command, error)) from None
        except ValueError:  # a NUL character, or an invalid variable name
            raise start_error(command, "command or environment cannot be passed on") from None
        ours.pop_all()
    return Spawned(popen, pipes.our_stdin, pipes.our_stdout, pipes.our_stderr, pipes.our_status)


def _windows_command(command: Command) -> Command:
    """The command with the path of its program.

    Raises:
        ChildStartError: the program is not on the PATH, or cmd.exe would execute an argument.
    """
    program = find_program(command.argv[0], command.env)
    if program is None:
        raise start_error(command, os.strerror(errno.ENOENT))
    argv = program, *command.argv[1:]
    if refusal := batch_refusal(argv):
        raise start_error(command, refusal)
    return replace(command, argv=argv)


@dataclass(frozen=True, slots=True)
class _Pipes:
    our_stdin: int | None
    stdin: int
    our_stdout: int
    stdout: int
    our_stderr: int
    stderr: int
    our_status: int | None
    status: int | None


def _open_pipes(ours: ExitStack, theirs: ExitStack, stdin: bool | bytes) -> _Pipes:
    """Open all pipes; one of the two stacks closes each descriptor."""
    our_stdin = None
    if stdin is True:
        their_stdin, our_stdin = os.pipe()
        ours.callback(os.close, our_stdin)
    elif stdin is False:
        their_stdin = os.open(os.devnull, os.O_RDONLY | file_calls.CLOSE_ON_EXEC)
    else:
        their_stdin = _anonymous_file(stdin)
    theirs.callback(os.close, their_stdin)
    our_stdout, stdout = os.pipe()
    ours.callback(os.close, our_stdout)
    theirs.callback(os.close, stdout)
    our_stderr, stderr = os.pipe()
    ours.callback(os.close, our_stderr)
    theirs.callback(os.close, stderr)
    our_status = status = None
    if sys.platform == "linux":
        our_status, status = os.pipe()
        ours.callback(os.close, our_status)
        theirs.callback(os.close, status)
    return _Pipes(our_stdin, their_stdin, our_stdout, stdout, our_stderr, stderr, our_status, status)


def _anonymous_file(content: bytes) -> int:
    """A descriptor of an unnamed file with this content, positioned at its beginning."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    else:
        import tempfile  # noqa: PLC0415  slow to load

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _popen(command: Command, marker: str, pipes: _Pipes) -> subprocess.Popen[bytes]:
    argv, cwd = list(command.argv), command.cwd
    passed: tuple[int, ...] = ()
    if pipes.status is not None:
        code = _launcher_code()
        passed = (code, pipes.status)
        # the launcher changes the folder: on a hung disk this process would block
        argv, cwd = [*_launcher(command, code, pipes.status), "--", *argv], "/"
    return subprocess.Popen(
        argv,
        stdin=pipes.stdin,
        stdout=pipes.stdout,
        stderr=pipes.stderr,
        pass_fds=passed,
        env={**command.env, "LMTB_CHILD": marker},
        cwd=cwd,
        start_new_session=True,
    )


@functools.cache
def _launcher_code() -> int:
    """A descriptor of the compiled launcher: starts 3 ms faster than its source, and no update changes it."""
    name = "workspace_server.processes.launcher"
    code = SourceFileLoader(name, LAUNCHER).get_code(name)
    assert code is not None  # noqa: S101  narrows the type
    return _anonymous_file(importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))


def _launcher(command: Command, code: int, status: int) -> list[str]:
    ctype = command.env.get("LC_CTYPE")
    return [
        *(sys.executable, "-I", "-S", f"/proc/self/fd/{code}", f"parent={os.getpid()}", f"status={status}"),
        f"cwd={command.cwd}",
        *([] if ctype is None else [f"ctype={ctype}"]),
        *([] if command.confinement is None else ["confined=1", *command.confinement.launcher_arguments()]),
    ]


def _error_text(command: Command, error: OSError) -> str:
    reason = error.strerror or type(error).__name__
    return f"its working folder: {reason}" if error.filename == command.cwd else reason


def launcher_failure(report: bytes) -> str | None:
    """The error in the launcher's report, for a person; None if the command was executed."""
    if report == LAUNCHED:
        return None
    if not report:
        return "its launcher ended before the program started"
    step, _, reason = report.removeprefix(LAUNCHED).decode("utf-8", "replace").partition(":")
    return {"folder": f"its working folder: {reason}", "command": reason}.get(step, f"{step}: {reason}")
