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
    known,
    login_at,
    read_known_hosts,
)
from lm_tools_bridge.remote_hosts.transports import interactive, logout
from lm_tools_bridge.terminal.command_line import Failure
from manager import exit_codes
from manager.cli.output.manager_access import user_paths

LOGOUT_S: Final = 10.0


def user_hosts() -> Mapping[str, KnownHost]:
    """The hosts that were added."""
    try:
        return read_known_hosts(user_paths().config_dir)
    except InvalidHostsFile as error:
        raise Failure(str(error), "correct the file", exit_code=exit_codes.HOPELESS) from error


def host_named(name: str) -> KnownHost:
    """The host of this name."""
    one = user_hosts().get(name)
    if one is None:
        raise Failure(f"there is no host {name}", "list them with: lmtb remote list", reason="unknown_host")
    return one


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
    address = parse_address(text, {name: one.host for name, one in hosts.items()})
    if address is None or isinstance(address, InvalidAddress):
        why = f": {address.problem}" if isinstance(address, InvalidAddress) else ""
        raise Failure(f"{text} cannot be used{why}", "list the hosts with: lmtb remote list")
    one = known(hosts, address.host)
    if one is None:
        raise Failure(
            f"the host {address.host} is not added", f"add it: lmtb remote add NAME {address.host}/"
        )
    return TerminalHost(one.name, one), address.path


def login_of(one: KnownHost) -> str | None:
    """The socket of a login of ssh that was made for the host; None if there is none."""
    path = login_at(user_paths().runtime_dir, one.host)
    return None if path is None else str(path)


def log_out(one: KnownHost) -> None:
    """End the login of ssh that was made for the host, if there is one."""
    path = login_of(one)
    command = None if path is None else logout(one.host, path)
    if command is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # it ends by itself within hours
            subprocess.run(command, check=False, capture_output=True, timeout=LOGOUT_S)
