"""A real sshd of the test's own: its own keys and configuration, on a port that the system gives."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

SSHD: Final = "/usr/sbin/sshd"
START_S: Final = 15.0


class SshServer:
    """An ssh server for the user who runs the tests, and a client configuration that leads to it.

    Args:
        environ: what the programs of its sessions run with, HOME included: another user's folders.
        passphrase: of the user's key; ssh asks for it unless it is empty.
        address: where it listens.
        prefix: a program that is to start it, such as `ip netns exec NAME`.

    Attributes:
        port: the same over restarts.
        through: the port of a proxy before it that clients are led to, if there is one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environ: Mapping[str, str] | None = None,
        passphrase: str = "",
        address: str = "127.0.0.1",
        prefix: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        self.address = address
        self.through: int | None = None
        self._environ = dict(environ or {})
        self._prefix = tuple(prefix)
        folder.mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        for name in ("host", "other_host"):
            self._keygen(name)
        self._keygen("user", passphrase)
        self._process: asyncio.subprocess.Process | None = None
        (folder / "authorized_keys").write_bytes((folder / "user.pub").read_bytes())
        self.trust_host_key()

    def install_client(self, programs: Path) -> None:
        """Put an `ssh` into a folder of programs that reads a configuration of ours, as a user's own would be."""
        config = self.folder / "ssh_config"
        config.write_text(
            f"Host build\n  HostName {self.address}\n  Port {self.through or self.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {self.folder}/user\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.folder}/known_hosts\n"
            "  GlobalKnownHostsFile /dev/null\n"
        )
        program = programs / "ssh"
        program.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
        program.chmod(0o755)

    def trust_host_key(self, name: str = "host") -> None:
        """Write the host key that clients expect."""
        kind, key, *_ = (self.folder / f"{name}.pub").read_text().split()
        (self.folder / "known_hosts").write_text(
            f"[{self.address}]:{self.through or self.port} {kind} {key}\n"
        )

    def forget_host_key(self) -> None:
        """Let clients know no host key."""
        (self.folder / "known_hosts").write_text("")

    async def start(self, *, host_key: str = "host", authorized: bool = True) -> None:
        """Listen."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        keys = "authorized_keys" if authorized else "nobody"
        config = self.folder / "sshd_config"
        config.write_text(
            f"ListenAddress {self.address}\nPort {self.port}\nHostKey {self.folder}/{host_key}\nPidFile none\n"
            f"AuthorizedKeysFile {self.folder}/{keys}\nStrictModes no\nUsePAM no\nPasswordAuthentication yes\n"
            f"PermitRootLogin yes\nLogLevel ERROR\nPrintMotd no\n{self._set_env()}"
        )
        command = (*self._prefix, SSHD, "-D", "-e", "-f", str(config))
        with (self.folder / "sshd.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stderr=log)
        async with asyncio.timeout(START_S):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection(self.address, self.port)
                    writer.close()
                    return
                await asyncio.sleep(0.02)

    async def restart(self, **environ: str) -> None:
        """Cut all connections and listen again, with further variables for its sessions."""
        await self.stop()
        self._environ |= environ
        await self.start()

    def sessions(self) -> list[psutil.Process]:
        """The processes of open connections."""
        assert self._process is not None
        return psutil.Process(self._process.pid).children()

    async def stop(self) -> None:
        """Stop listening, and cut all connections."""
        if self._process is None or self._process.returncode is not None:
            return
        for session in psutil.Process(self._process.pid).children(recursive=False):
            with contextlib.suppress(psutil.Error):
                session.kill()
        self._process.send_signal(signal.SIGTERM)
        await self._process.wait()

    def _set_env(self) -> str:
        variables = " ".join(f'"{name}={value}"' for name, value in self._environ.items())
        return f"SetEnv {variables}\n" if variables else ""

    def _keygen(self, name: str, passphrase: str = "") -> None:
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(self.folder / name)]
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
