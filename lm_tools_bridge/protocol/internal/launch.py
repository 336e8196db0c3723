"""Launch instructions for a workspace server, and its health answer.

Launch instructions are one line of JSON on the server's standard input. In argv or the environment other
programs could read the secret.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

APPROVAL_WAIT: Final = "approval_wait_s"
"""Setting: how many seconds a call waits for a person's approval if its client cannot be asked."""


class Folders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's folders as absolute paths; the manager determines them.

    Attributes:
        config: configuration that the user wrote (`workspace.toml`, script tools).
        state: persistent data (trust, cached lists, sealed secrets).
        runtime: sockets; private to this user, removed at logout.
    """

    config: str
    state: str
    runtime: str


class LaunchInstructions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The launch instructions of one instance.

    Attributes:
        workspace: the workspace id.
        root: absolute path of the workspace folder.
        instance: id of this run of the server.
        nonce: random text that health answers repeat, so that no other process can pass for this one.
        secret: every request except health must contain it.
        listen_fd: descriptor of the bound, listening socket.
        grace_s: seconds without a lifeline from a manager after which the server stops.
        settings: settings of the workspace server itself.
        folders: the user's folders; None if the server must not read any of them.
        manager_port: the manager's port, to detect configured servers that lead back to the manager.
        variables: environment variables of the manager that configurations can name. They are not in the
            environment of the server, so that no child process inherits them.
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
    variables: dict[str, str] = {}


def encode(launch: LaunchInstructions) -> bytes:
    """Encode launch instructions as the line for standard input."""
    return msgspec.json.encode(launch) + b"\n"


def decode(line: bytes) -> LaunchInstructions:
    """Decode launch instructions.

    Raises:
        msgspec.ValidationError: the line does not match `LaunchInstructions`.
    """
    return msgspec.json.decode(line, type=LaunchInstructions)


class Health(msgspec.Struct):
    """The health answer of a workspace server. Unknown members are ignored, so that new ones can be added.

    `tasks` is the number of running MCP tasks.
    """

    ok: bool
    nonce: str | None = None
    workspace: str | None = None
    pid: int | None = None
    version: str | None = None
    tasks: int = 0


def decode_health(body: bytes) -> Health | None:
    """Decode a health answer; None if the body is none."""
    try:
        return msgspec.json.decode(body, type=Health)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
