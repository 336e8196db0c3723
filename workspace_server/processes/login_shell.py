"""Asks the user's login shell for its environment, above all for the PATH that child processes get.

Services and desktop programs often start without the user's PATH. The shell runs in the home folder with a
clean environment, independent of any workspace. The caller runs this once and keeps the result.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from lm_tools_bridge.machine.own_process import own_uid
from workspace_server.processes import environment
from workspace_server.processes.child_process import ChildProcess, ChildStartError, Command

# Start files of shells with version managers need a second or two; the first start of a server waits for
# this.
DEADLINE_S: Final = 5.0
_OF_THE_SHELL: Final = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "LMTB_CHILD"})
# Bytes: an environment has some kilobytes, but a start file can print without end.
_MAX_OUTPUT: Final = 1024 * 1024


async def login_path(environ: Mapping[str, str], deadline_s: float = DEADLINE_S) -> str:
    """The `PATH` of `login_environment`."""
    return (await login_environment(environ, deadline_s))["PATH"]


async def login_environment(environ: Mapping[str, str], deadline_s: float = DEADLINE_S) -> Mapping[str, str]:
    """The variables that the user's login shell sets; they are not passed on to children by default.

    `PATH` is always present: the shell's absolute folders, then those of `environ` that are missing in it. It
    is the only variable if there is no shell, or the shell fails or takes longer than `deadline_s` seconds.
    """
    own = environ.get("PATH", "")
    home, shell = _home_and_shell(environ)
    if not home or not shell:
        return {"PATH": _merge(own)}
    mark = os.urandom(16).hex()
    # a program prints them, because each kind of shell quotes variables in its own way
    script = f'import os,json;print("\\n{mark}="+json.dumps(dict(os.environ))+"={mark}",flush=True)'
    printer = shlex.join([sys.executable, "-I", "-S", "-c", script])
    base = environment.inherited({**environ, "HOME": home, "SHELL": shell}, None, home)
    del base["LMTB_WORKSPACE"]
    command = Command((shell, "-l", "-c", printer), base, home)
    # no regular expression: to compile one takes 0.1 MiB of this process for ever
    printed = (await _output(command, deadline_s, mark)).partition(f"\n{mark}=")[2]
    variables = _variables(printed.partition(f"={mark}")[0])
    return {**variables, "PATH": _merge(variables.get("PATH", ""), own)}


def _variables(text: str) -> dict[str, str]:
    """The variables that were printed, without those that every shell sets for itself."""
    try:
        variables = json.loads(text)
    except ValueError:
        return {}
    return {name: value for name, value in variables.items() if name not in _OF_THE_SHELL}


async def _output(command: Command, deadline_s: float, mark: str) -> str:
    """The shell's output up to the second mark, or until the deadline."""
    printed = b""
    try:
        child = await ChildProcess.start(command, stdin=False, name="login shell")
    except ChildStartError:
        return ""
    end = f"={mark}".encode()
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(deadline_s):
                while (chunk := await child.read()) and len(printed) < _MAX_OUTPUT:
                    printed += chunk
                    if end in printed:
                        break
    finally:
        await child.kill()
    return printed.decode("utf-8", "surrogateescape")


def _home_and_shell(environ: Mapping[str, str]) -> tuple[str, str]:
    home, shell = environ.get("HOME", ""), environ.get("SHELL", "")
    with suppress(ImportError, KeyError):
        import pwd

        entry = pwd.getpwuid(own_uid())
        home, shell = home or entry.pw_dir, shell or entry.pw_shell
    return (home if home.startswith("/") else ""), (shell if shell.startswith("/") else "")


def _merge(*paths: str) -> str:
    folders = [folder for path in paths for folder in path.split(":") if folder.startswith("/")]
    return ":".join(dict.fromkeys(folders))
