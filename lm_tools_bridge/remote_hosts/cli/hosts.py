"""Finds the hosts that verbs name, and runs verbs of this program there."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lm_tools_bridge.remote_hosts.address import InvalidAddress, parse_address
from lm_tools_bridge.remote_hosts.known_hosts import (
    InvalidHostsFile,
    KnownHost,
    find_entry,
    login_at,
    read_known_hosts,
)
from lm_tools_bridge.remote_hosts.transports import interactive, logout
from lm_tools_bridge.terminal.command_line import Failure
from manager import exit_codes
from manager.cli.output.manager_access import user_paths

LOGOUT_S: Final = 10.0
"""ssh asks its own process for the login over a local socket, which answers at once or not at all."""


def user_hosts() -> Mapping[str, KnownHost]:
    """The hosts that were added."""
    try:
        return read_known_hosts(user_paths().config_dir)
    except InvalidHostsFile as error:
        raise Failure(str(error), "correct the file", exit_code=exit_codes.HOPELESS) from error


def host_named(name: str) -> KnownHost:
    """The host of this name."""
    entry = user_hosts().get(name)
    if entry is None:
        raise Failure(f"there is no host {name}", "list them with: lmtb remote list", reason="unknown_host")
    return entry


@dataclass(frozen=True, slots=True)
class TerminalHost:
    """A host on which verbs run at this terminal: a `features.ReachedHost`."""

    name: str
    entry: KnownHost

    def run(self, words: Sequence[str]) -> int:
        """Run a verb of this program there; its exit code."""
        command = interactive(self.entry.host, [*self.entry.command, *words], login_of(self.entry))
        return subprocess.run(command, check=False).returncode


def find_host(text: str) -> tuple[TerminalHost, str]:
    """The host and the folder there that an address means."""
    hosts = user_hosts()
    address = parse_address(text, {name: entry.host for name, entry in hosts.items()})
    if address is None or isinstance(address, InvalidAddress):
        why = f": {address.problem}" if isinstance(address, InvalidAddress) else ""
        raise Failure(f"{text} cannot be used{why}", "list the hosts with: lmtb remote list")
    entry = find_entry(hosts, address.host)
    if entry is None:
        raise Failure(
            f"the host {address.host} is not added", f"add it: lmtb remote add NAME {address.host}/"
        )
    return TerminalHost(entry.name, entry), address.path


def login_of(entry: KnownHost) -> str | None:
    """The socket of a login of ssh that was made for the host; None if there is none."""
    path = login_at(user_paths().runtime_dir, entry.host)
    return None if path is None else str(path)


def log_out(entry: KnownHost) -> None:
    """End the login of ssh that was made for the host, if there is one."""
    path = login_of(entry)
    command = None if path is None else logout(entry.host, path)
    if command is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # it ends by itself within hours
            subprocess.run(command, check=False, capture_output=True, timeout=LOGOUT_S)
