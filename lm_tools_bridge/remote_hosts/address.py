"""Parses addresses of projects on other hosts, such as `ssh://ada@build/srv/app`. Pure.

ssh://[user@]host[:port]/path    docker://container/path    podman://container/path
wsl://distro/path                kubectl://namespace/pod/path
name:/path                       a host that the user gave this name
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import unquote_to_bytes

from manager.routing.cwd import MAX_BYTES
from manager.routing.remote_address import SCHEMES, Scheme

_ADDRESS: Final = re.compile(rf"\s*(?P<scheme>{'|'.join(SCHEMES)}):/{{1,2}}(?P<rest>[^/].*)", re.DOTALL)
"""One slash also counts: `pathlib` and shells that complete paths join the two."""
_NAMED: Final = re.compile(r"\s*(?P<name>[A-Za-z0-9][A-Za-z0-9_.-]+):(?P<path>/.*)", re.DOTALL)
"""Two characters at least, so that no drive of Windows is meant."""
_SSH: Final = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})@)?"
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_PLAIN: Final[Mapping[Scheme, re.Pattern[str]]] = {
    "docker": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
    "podman": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}"),
    "wsl": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"),
}
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{1,63}")
_MAX_PORT: Final = 65535  # TCP ports have 16 bits


@dataclass(frozen=True, slots=True)
class Host:
    """A host, and how it is reached. No part begins with a hyphen, so none can be taken for an option.

    Attributes:
        name: of the machine, container or distribution; for kubectl `namespace/pod`.
        user: the login of ssh; None leaves it to the user's configuration.
        port: of ssh; None likewise.
    """

    scheme: Scheme
    name: str
    user: str | None = None
    port: int | None = None

    def __str__(self) -> str:
        """The address of the host, without a final slash."""
        login = "" if self.user is None else f"{self.user}@"
        port = "" if self.port is None else f":{self.port}"
        return f"{self.scheme}://{login}{self.name}{port}"


@dataclass(frozen=True, slots=True)
class RemoteAddress:
    """A folder on another host, by its absolute path there."""

    host: Host
    path: str

    def __str__(self) -> str:
        """The address as this program writes it."""
        return f"{self.host}{self.path}"


@dataclass(frozen=True, slots=True)
class InvalidAddress:
    """The text is meant as a remote address, but it is none.

    Attributes:
        problem: a clause that says why.
    """

    problem: str


def parse_address(text: str, named: Mapping[str, Host]) -> RemoteAddress | InvalidAddress | None:
    """Parse a remote address; None if the text is none, such as a path of this machine.

    Percent signs in addresses with a scheme encode bytes, as in any URI; those behind a name do not.

    Args:
        named: the hosts that the user gave a name.
    """
    match = _ADDRESS.match(text)
    if match is None:
        short = _NAMED.match(text)
        host = None if short is None else named.get(short["name"])
        return None if host is None or short is None else _addressed(host, short["path"].rstrip())
    scheme = cast("Scheme", match["scheme"])  # the pattern has these alone
    parts = match["rest"].rstrip().split("/", 2 if scheme == "kubectl" else 1)
    host_or_problem = _host(scheme, parts)
    if isinstance(host_or_problem, InvalidAddress):
        return host_or_problem
    path = parts[-1] if len(parts) == (3 if scheme == "kubectl" else 2) else ""
    raw = unquote_to_bytes(path.encode("utf-8", "surrogateescape"))
    return _addressed(host_or_problem, "/" + raw.decode("utf-8", "surrogateescape"))


def is_name(text: str) -> bool:
    """Whether a host may have this name: letters, digits, `_`, `.` and `-`, and no scheme."""
    return _NAME.fullmatch(text) is not None and text not in {*SCHEMES, "file"}


def _host(scheme: Scheme, parts: list[str]) -> Host | InvalidAddress:
    if scheme == "ssh":
        return _ssh_host(parts[0])
    if scheme == "kubectl":
        if len(parts) < 2 or not all(_LABEL.fullmatch(part) for part in parts[:2]):
            return InvalidAddress("kubectl:// needs the names of a namespace and a pod")
        return Host(scheme, f"{parts[0]}/{parts[1]}")
    if _PLAIN[scheme].fullmatch(parts[0]) is None:
        what = "distribution" if scheme == "wsl" else "container"
        return InvalidAddress(f"{scheme}:// needs the name of a {what}")
    return Host(scheme, parts[0])


def _ssh_host(text: str) -> Host | InvalidAddress:
    match = _SSH.fullmatch(text)
    if match is None:
        return InvalidAddress("ssh:// needs a host, such as ssh://ada@build/srv/app")
    port = None if match["port"] is None else int(match["port"])
    if port is not None and not 0 < port <= _MAX_PORT:
        return InvalidAddress("its port is not between 1 and 65535")
    return Host("ssh", match["host"], match["user"], port)


def _addressed(host: Host, path: str) -> RemoteAddress | InvalidAddress:
    if "\0" in path:
        return InvalidAddress("its path contains a NUL")
    try:
        size = len(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return InvalidAddress("its path is no text that a file system can hold")
    if size > MAX_BYTES:
        return InvalidAddress(f"its path is longer than {MAX_BYTES} bytes")
    return RemoteAddress(host, path)
