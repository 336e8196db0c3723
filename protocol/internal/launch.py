"""What the manager tells a workspace server that it starts, and what the server tells of its health.

The launch order travels as one JSON line on the child's standard input: never in argv or in the
environment, where other programs could read the secret.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Folders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's folders, absolute: one rule for all, which the manager knows.

    Attributes:
        config: what the user wrote (`workspace.toml`, script tools).
        state: what must survive (trust, cached lists, sealed secrets).
        runtime: private to this user, gone with the login (sockets).
    """

    config: str
    state: str
    runtime: str


class LaunchInstructions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One instance's orders.

    Attributes:
        workspace: the workspace id.
        root: absolute path of the workspace folder.
        instance: id of this run.
        nonce: random text that health answers repeat, so that nobody else can be taken for this process.
        secret: what every request except health must carry.
        listen_fd: descriptor of the bound, listening socket.
        grace_s: seconds to wait for a manager to hold the lifeline before stopping.
        settings: settings of the workspace server itself.
        folders: the user's folders; None where there are none to use, and nothing of the user's is read.
        manager_port: the port clients reach the manager at, so that an entry which leads back is known.
    """

    workspace: str
    root: str
    instance: str
    nonce: str
    secret: str
    listen_fd: int
    grace_s: float = 60.0
    settings: dict[str, Any] = {}
    folders: Folders | None = None
    manager_port: int = 0


def encode(launch: LaunchInstructions) -> bytes:
    """The line for the child's standard input."""
    return msgspec.json.encode(launch) + b"\n"


def decode(line: bytes) -> LaunchInstructions:
    """Read the orders.

    Raises:
        msgspec.ValidationError: they do not fit.
    """
    return msgspec.json.decode(line, type=LaunchInstructions)


class Health(msgspec.Struct):
    """The health answer of a workspace server. Unknown members are ignored, so that it can grow.

    `tasks` is how many calls go on without their clients.
    """

    ok: bool
    nonce: str | None = None
    workspace: str | None = None
    pid: int | None = None
    version: str | None = None
    tasks: int = 0


def decode_health(body: bytes) -> Health | None:
    """The health answer in a body, or None when it is none."""
    try:
        return msgspec.json.decode(body, type=Health)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
