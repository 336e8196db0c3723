"""Builds the command that runs a program on a host, and its environment, for each kind of host. Pure.

No shell of this machine is involved. ssh hands one string to the login shell over there, so for it the words
are quoted; the other tools take words.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lm_tools_bridge.remote_hosts.address import Host
from manager.routing.remote_address import Scheme
from manager.supervision.environment import inherited

_OF_TOOLS: Final = (
    "SSH_AUTH_SOCK", "SSH_AGENT_PID", "KRB5CCNAME", "DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG",
    "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "CONTAINER_CONNECTION", "KUBECONFIG",
)  # fmt: skip
SERVE: Final = ("remote", "serve")
"""The words of the verb that serves there."""
_IN_PATH: Final = 'PATH="$HOME/.local/bin:$PATH"; export PATH; exec "$@"'
"""Where `uv tool install` puts programs; shells that are not for a login often miss it."""
_OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "RemoteCommand=none",
)
"""For a connection without a person: it asks nothing, notices a dead line, and lends nothing."""
_AT_TERMINAL: Final = ("-o", "RemoteCommand=none", "-o", "ClearAllForwardings=yes")
"""For a person's connection: what the user's configuration has for other visits would be in the way."""


def tool_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of the tool that reaches a host: what servers inherit, and where its logins are."""
    return {**inherited(environ), **{name: environ[name] for name in _OF_TOOLS if name in environ}}


def background(host: Host, words: Sequence[str], control_path: str | None = None) -> list[str]:
    """The command that runs `words` over there without a terminal.

    Args:
        control_path: the socket of a login of ssh that a person has made (`login`), if there is one.
    """
    return _TRANSPORTS[host.scheme][0](host, _with_path(words), control_path)


def interactive(host: Host, words: Sequence[str], control_path: str | None = None) -> list[str]:
    """The command that runs `words` over there at the user's terminal."""
    return _TRANSPORTS[host.scheme][1](host, _with_path(words), control_path)


def login(host: Host, control_path: str, persist_s: int) -> list[str] | None:
    """The command by which a person logs in, for later connections of the same host; None but for ssh."""
    if host.scheme != "ssh":
        return None
    shared = ("-M", "-o", f"ControlPath={control_path}", "-o", f"ControlPersist={persist_s}")
    return ["ssh", *shared, *_AT_TERMINAL, *_destination(host), "exit"]


def logout(host: Host, control_path: str) -> list[str] | None:
    """The command that ends the login that `login` made; None but for ssh."""
    if host.scheme != "ssh":
        return None
    return ["ssh", "-O", "exit", "-o", f"ControlPath={control_path}", *_destination(host)]


def _with_path(words: Sequence[str]) -> list[str]:
    return ["sh", "-c", _IN_PATH, "sh", *words]


def _destination(host: Host) -> list[str]:
    login = [] if host.user is None else ["-l", host.user]
    port = [] if host.port is None else ["-p", str(host.port)]
    return [*login, *port, "--", host.name.strip("[]")]


def _shared(control_path: str | None) -> list[str]:
    return [] if control_path is None else ["-o", f"ControlPath={control_path}", "-o", "ControlMaster=no"]


def _ssh(host: Host, words: Sequence[str], control_path: str | None) -> list[str]:
    options = [part for option in _OPTIONS for part in ("-o", option)]
    to = _destination(host)
    return ["ssh", "-T", "-e", "none", *options, *_shared(control_path), *to, shlex.join(words)]


def _ssh_terminal(host: Host, words: Sequence[str], control_path: str | None) -> list[str]:
    return ["ssh", "-t", *_AT_TERMINAL, *_shared(control_path), *_destination(host), shlex.join(words)]


def _container(*flags: str) -> Callable[[Host, Sequence[str], str | None], list[str]]:
    return lambda host, words, _: [host.scheme, "exec", *flags, host.name, *words]


def _wsl(host: Host, words: Sequence[str], _: str | None) -> list[str]:
    return ["wsl.exe", "-d", host.name, "--exec", *words]


def _kubectl(*flags: str) -> Callable[[Host, Sequence[str], str | None], list[str]]:
    def command(host: Host, words: Sequence[str], _: str | None) -> list[str]:
        namespace, _, pod = host.name.partition("/")
        return ["kubectl", "--namespace", namespace, "exec", *flags, pod, "--", *words]

    return command


_Command = Callable[[Host, Sequence[str], str | None], list[str]]
_TRANSPORTS: Final[Mapping[Scheme, tuple[_Command, _Command]]] = {
    "ssh": (_ssh, _ssh_terminal),
    "docker": (_container("-i"), _container("-i", "-t")),
    "podman": (_container("-i"), _container("-i", "-t")),
    "wsl": (_wsl, _wsl),
    "kubectl": (_kubectl("-i"), _kubectl("-i", "-t")),
}
"""By kind of host: without a terminal, and at one."""
