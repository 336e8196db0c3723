"""Two users' folders on one machine that stand for two hosts, between them a real sshd with the far user's HOME."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

from support.processes.managers.manager_home import CommandResult, ManagerHome, manager_home
from support.processes.terminals.screen_session import screen_session
from support.servers.network.network_namespace import Network
from support.servers.network.ssh_server import SshServer

NAME: Final = "build"
ADDRESS: Final = f"ssh://{NAME}"
LONGEST_S: Final = 60.0
"""Of a verb that installs something."""
_OF_REGISTRIES: Final = ("PIP_", "UV_", "SSL_CERT_FILE", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
"""Begins of variables that tell installers where packages are."""


class SshHosts:
    """Both hosts and the server between them. The far host has no program of ours unless one is installed."""

    def __init__(self, near: ManagerHome, far: ManagerHome, server: SshServer) -> None:
        self.near = near
        self.far = far
        self.server = server

    def lead_through(self, port: int | None) -> None:
        """Lead ssh through a proxy on this port of this machine, or straight to the server again."""
        self.server.through = port
        self.server.trust_host_key()
        self.server.install_client(self.near.folder.parent / "bin")

    @property
    def far_home(self) -> Path:
        """The home folder of the far user."""
        return self.far.folder / "home"

    async def add(self, *, command: str | None = None) -> None:
        """Add the far host on the near one, with the command `lmtb` there unless another one is named."""
        words = [] if command is None else ["--command", command]
        done = await self.near.lmtb("remote", "add", NAME, f"{ADDRESS}/", *words)
        assert done.code == 0, done.err

    async def add_these_sources(self) -> None:
        """Add the far host, where the program of the tests itself serves."""
        await self.add(command=f"{sys.executable} -I -m manager")

    def project(self, name: str = "app") -> Path:
        """A project on the far host with one file."""
        root = self.far.folder / name
        (root / ".git").mkdir(parents=True)
        (root / "src").mkdir()
        (root / "src" / "where.txt").write_text(f"{name} of the far host\n")
        return root

    async def at_terminal(self, words: Sequence[str], *answers: tuple[str, str]) -> CommandResult:
        """Run a verb on the near host at a terminal, where a person answers questions in this order.

        Args:
            answers: what the screen shows of a question, and what is typed then.
        """
        return await asyncio.to_thread(_at_terminal, self.near, words, answers)

    async def status(self) -> dict[str, Any]:
        """The line, after an attempt to make it."""
        done = await self.remote("status", NAME, "--json")
        (line,) = json.loads(done.out)["lines"]
        return dict(line)

    async def remote(self, *words: str) -> CommandResult:
        """Run `lmtb remote` on the near host."""
        return await self.near.lmtb("remote", *words)


def _at_terminal(
    home: ManagerHome, words: Sequence[str], answers: Sequence[tuple[str, str]]
) -> CommandResult:
    command = [sys.executable, "-I", "-m", "manager", *words]
    with screen_session(command, home.environ, cwd=home.folder, columns=200) as terminal:
        for question, answer in answers:
            terminal.sees(question)
            terminal.press(f"{answer}\r")
        code = terminal.ended(LONGEST_S)
        return CommandResult(code, "\n".join(terminal.lines), "")


@contextlib.asynccontextmanager
async def ssh_hosts(
    folder: Path,
    *,
    programs: Sequence[Path] = (),
    passphrase: str = "",
    network: Network | None = None,
    forks: bool = False,
) -> AsyncIterator[SshHosts]:
    """Both hosts, whose server listens. Nothing of either may be left at the end.

    Args:
        programs: folders of programs that the far host has beside the system's.
        passphrase: of the near user's key.
        network: of the far host; None for this machine's own.
        forks: whether servers there may be forked.
    """
    tools = folder / "bin"
    tools.mkdir(parents=True)
    known = {name: value for name, value in os.environ.items() if name.startswith(_OF_REGISTRIES)}
    there = {**known, "PATH": ":".join([*map(str, programs), "/usr/bin", "/bin"])}
    here = {"PATH": f"{tools}:/usr/bin:/bin"}
    async with (
        manager_home(folder / "far", environ=there, forks=forks) as far,
        manager_home(folder / "near", environ=here) as near,
    ):
        where = {} if network is None else {"address": network.address, "prefix": network.prefix}
        server = SshServer(folder / "sshd", environ=far.environ, passphrase=passphrase, **where)
        server.install_client(tools)
        await server.start()
        try:
            yield SshHosts(near, far, server)
        finally:
            await near.close()
            await server.stop()
