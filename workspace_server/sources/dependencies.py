"""Holds what sources need: folders, environment, version, and the variables of the login shell.

The login shell is asked at most once in a server's life, and only when a source needs its variables: servers
are often started with a smaller environment than the user's terminal has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workspace_server.processes import environment


@dataclass(slots=True)
class Dependencies:
    """One workspace's world.

    Attributes:
        workspace: the workspace's id.
        root: its folder, absolute and link-free.
        version: of this product.
        environ: our own environment, and the variables of the manager that configurations can name.
        config_dir, state_dir, runtime_dir: the user's folders.
        manager_port: the port clients reach the manager at, 0 where it is not known.
    """

    workspace: str
    root: str
    version: str
    environ: Mapping[str, str]
    config_dir: Path
    state_dir: Path
    runtime_dir: Path
    manager_port: int = 0
    _shell: asyncio.Task[Mapping[str, str]] | None = field(default=None, init=False)

    async def shell(self) -> Mapping[str, str]:
        """The variables of the user's login shell; PATH always, and holding our own folders as well."""
        if self._shell is None:
            from workspace_server.processes.login_shell import (  # noqa: PLC0415  few workspaces start programs
                login_environment,
            )

            self._shell = asyncio.create_task(login_environment(self.environ), name="login-shell")
        return await asyncio.shield(self._shell)

    async def close(self) -> None:
        """End the question to the shell, if it is still asked."""
        if self._shell is not None:
            self._shell.cancel()
            await asyncio.gather(self._shell, return_exceptions=True)

    @property
    def variables(self) -> Mapping[str, str]:
        """Our own environment, and what the login shell sets beside it, once it was asked."""
        return {**self._asked, **self.environ}

    @property
    def search_path(self) -> str:
        """The PATH of the login shell, once it was asked; until then our own."""
        return self._asked.get("PATH") or self.environ.get("PATH", "")

    @property
    def _asked(self) -> Mapping[str, str]:
        """The variables of the login shell, once it was asked."""
        shell = self._shell
        return {} if shell is None or not shell.done() or shell.cancelled() else shell.result()

    async def child_environment(self) -> Mapping[str, str]:
        """What every script sees before anything is declared for it."""
        shell = await self.shell()
        return environment.inherited(self.environ, shell.get("PATH"), self.root)

    async def server_environment(self) -> Mapping[str, str]:
        """What every stdio server sees before anything is declared for it."""
        shell = await self.shell()
        found = environment.inherited_by_server(self.environ, shell.get("PATH"), self.root)
        return {name: shell[name] for name in environment.NETWORK if name in shell} | found
