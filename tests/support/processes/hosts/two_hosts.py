"""Two users' folders that stand for two hosts: a manager on the near one, reached hosts by an `ssh` of the tests."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Literal

from support.processes.managers.manager_home import ManagerHome, manager_home

Kind = Literal["socket", "pipes"]
_SSH: Final[dict[Kind, str]] = {
    # the last argument is the command; sockets and pipes are both what real tools pass on
    "socket": '#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n',
    "pipes": '#!/bin/sh\nfor last; do :; done\ncat | sh -c "$last" | cat\n',
}
NAME: Final = "build"


class TwoHosts:
    """The near and the far folders.

    Attributes:
        address: of the far host.
    """

    address = f"ssh://{NAME}"

    def __init__(self, near: ManagerHome, far: ManagerHome) -> None:
        self.near = near
        self.far = far

    async def add(self) -> None:
        """Add the far host on the near one."""
        variables = [f"{name}={value}" for name, value in self.far.environ.items()]
        program = f"env -i {' '.join(variables)} {sys.executable} -I -m manager"
        done = await self.near.lmtb("remote", "add", NAME, self.address, "--command", program)
        assert done.code == 0, done.err

    def project(self, name: str = "app") -> Path:
        """A project on the far host with one file."""
        root = self.far.folder / name
        (root / ".git").mkdir(parents=True)
        (root / "src").mkdir()
        (root / "src" / "where.txt").write_text(f"{name} of the far host\n")
        return root


@contextlib.asynccontextmanager
async def two_hosts(folder: Path, *, kind: Kind = "socket") -> AsyncIterator[TwoHosts]:
    """Both hosts, of which the near one knows the far one. Nothing of either may be left at the end."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    ssh = programs / "ssh"
    ssh.write_text(_SSH[kind])
    ssh.chmod(0o755)
    path = {"PATH": f"{programs}:{sys.exec_prefix}/bin:/usr/bin:/bin"}
    async with manager_home(folder / "far") as far, manager_home(folder / "near", environ=path) as near:
        hosts = TwoHosts(near, far)
        await hosts.add()
        try:
            yield hosts
        finally:
            await near.close()
