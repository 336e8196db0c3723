"""Parses control requests to the manager: allocate, heartbeat, bye, resolve, shutdown.

Servers that register themselves and `lmtb` send them. `parse` returns a valid message, or names the first
invalid JSON member. Unknown members are ignored, so that senders may be newer than the manager.
`manager/admin/control/control_socket.py` answers. `sessionId` identifies a running server,
not an MCP session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Literal, Self

import msgspec

Kind = Literal["workspace-server", "editor"]
RefusalReason = Literal["invalid_payload", "missing_cwd", "invalid_cwd"]

# Registrations stay in memory as long as their clients live: each member has a bound. Paths are as long as
# PATH_MAX of Linux, ports have 16 bits, and a pid is a positive C int; ids, texts and windows have far less.
MAX_SESSION_ID: Final = 128
MAX_FOLDERS: Final = 64
MAX_PATH: Final = 4096
MAX_TEXT: Final = 256
MAX_PORT: Final = 65535
MAX_PID: Final = 2**31 - 1
LOOPBACK_HOSTS: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_LONE_SURROGATE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")
"""Lone surrogates that do not stand for a byte. Those that do (PEP 383) are allowed in paths."""
_OWN_PORT: Final = "must not be the manager's port"
_WINDOWS_ABSOLUTE: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\[^\\]")

_Check = Callable[[object], str | None]
"""Returns what is wrong with the value of a member, or None."""


class InvalidPayload(msgspec.Struct, frozen=True):
    """An invalid message: the JSON member, what is wrong with it, and the `reason` of the refusal."""

    field: str
    problem: str
    reason: RefusalReason = "invalid_payload"


class Allocate(msgspec.Struct, frozen=True):
    """A server requests a free port."""

    session_id: str
    preferred_port: int
    min_port: int | None = None

    @classmethod
    def parse(cls, payload: object) -> Self | InvalidPayload:
        """Parse the body of `POST /allocate`."""
        checks = {"sessionId": _session_id, "preferredPort": _port, "minPort": _port}
        members = _read_payload(payload, checks, optional={"minPort"})
        if isinstance(members, InvalidPayload):
            return members
        return cls(members["sessionId"], members["preferredPort"], members.get("minPort"))

    @property
    def start(self) -> int:
        """The lowest acceptable port."""
        return max(self.preferred_port, self.min_port or 0)


class Heartbeat(msgspec.Struct, frozen=True):
    """A server reports that it runs, and its address.

    `kind` is `editor` for messages in the old format, which have no nonce.
    """

    session_id: str
    pid: int
    workspace_folders: tuple[str, ...]
    workspace_file: str | None
    host: str
    port: int
    nonce: str | None
    kind: Kind

    @classmethod
    def parse(
        cls, payload: object, *, own_port: int, owns_process: Callable[[int], bool], windows: bool = False
    ) -> Self | InvalidPayload:
        """Parse the body of `POST /heartbeat`. The sender's `lastSeen` is ignored.

        Args:
            own_port: the manager's port.
            owns_process: whether a pid is a running process of this user; called last.
            windows: whether absolute paths are Windows paths.
        """

        def path(value: object) -> str | None:
            return _path(value, windows)

        checks: dict[str, _Check] = {
            "sessionId": _session_id,
            "workspaceFolders": lambda value: _folders(value, path),
            "workspaceFile": _or_null(path),
            "host": _host,
            "port": lambda value: _port(value) or (_OWN_PORT if value == own_port else None),
            "nonce": _or_null(_text),
            "kind": _or_null(_kind),
            "pid": lambda value: _pid(value, owns_process),
        }
        members = _read_payload(payload, checks, optional={"workspaceFile", "nonce", "kind"})
        if isinstance(members, InvalidPayload):
            return members
        is_old_format = members.get("nonce") is None or members.get("kind") == "editor"
        return cls(
            session_id=members["sessionId"],
            pid=members["pid"],
            workspace_folders=tuple(members["workspaceFolders"]),
            workspace_file=members.get("workspaceFile"),
            host=members["host"],
            port=members["port"],
            nonce=members.get("nonce"),
            kind="editor" if is_old_format else "workspace-server",
        )


class Bye(msgspec.Struct, frozen=True):
    """A server unregisters. `session_id` is None if the message has none, which is valid."""

    session_id: str | None

    @classmethod
    def parse(cls, payload: object) -> Self | InvalidPayload:
        """Parse the body of `POST /bye`."""
        members = _read_payload(payload, {"sessionId": _or_null(_session_id)}, optional={"sessionId"})
        return members if isinstance(members, InvalidPayload) else cls(members.get("sessionId"))


class Resolve(msgspec.Struct, frozen=True):
    """A request for the workspace of a folder. `cwd` is the text as sent."""

    cwd: str

    @classmethod
    def parse(cls, payload: object) -> Self | InvalidPayload:
        """Parse the body of `POST /resolve`. Reasons: `missing_cwd`, and `invalid_cwd` for a non-string."""
        members = _read_payload(payload, {}, optional=())
        if isinstance(members, InvalidPayload):
            return members
        cwd = members.get("cwd")
        if cwd is None or (isinstance(cwd, str) and not cwd.strip()):
            return InvalidPayload("cwd", "is missing", "missing_cwd")
        if not isinstance(cwd, str):
            return InvalidPayload("cwd", "must be a string", "invalid_cwd")
        return cls(cwd)


class Shutdown(msgspec.Struct, frozen=True):
    """A request to stop the manager, optionally only if it has the expected version.

    With `keep_servers` the workspace servers keep running, for the next manager to adopt.
    """

    reason: str | None = None
    expected_version: str | None = None
    keep_servers: bool = False

    @classmethod
    def parse(cls, payload: object) -> Self | InvalidPayload:
        """Parse the body of `POST /shutdown`."""
        checks: dict[str, _Check] = {
            "reason": _or_null(_text),
            "expectedVersion": _or_null(_text),
            "keepServers": lambda value: None if isinstance(value, bool) else "must be true or false",
        }
        members = _read_payload(payload, checks, optional=checks)
        if isinstance(members, InvalidPayload):
            return members
        return cls(members.get("reason"), members.get("expectedVersion"), members.get("keepServers", False))


def _read_payload(
    payload: object, checks: Mapping[str, _Check], *, optional: Collection[str]
) -> dict[str, Any] | InvalidPayload:
    if not isinstance(payload, dict):
        return InvalidPayload("", "must be a JSON object")
    for field, check in checks.items():
        if field not in payload:
            if field in optional:
                continue
            return InvalidPayload(field, "is missing")
        problem = check(payload[field])
        if problem is not None:
            return InvalidPayload(field, problem)
    return payload


def _or_null(check: _Check) -> _Check:
    return lambda value: None if value is None else check(value)


def _session_id(value: object) -> str | None:
    if isinstance(value, str) and value.strip() and len(value) <= MAX_SESSION_ID:
        return None
    return f"must be a non-blank string of at most {MAX_SESSION_ID} characters"


def _text(value: object) -> str | None:
    if isinstance(value, str) and value.strip() and len(value) <= MAX_TEXT:
        return None
    return f"must be a non-blank string of at most {MAX_TEXT} characters"


def _port(value: object) -> str | None:
    # type(), because bool is a subclass of int
    if type(value) is int and 1 <= value <= MAX_PORT:
        return None
    return f"must be an integer from 1 to {MAX_PORT}"


def _pid(value: object, owns_process: Callable[[int], bool]) -> str | None:
    if type(value) is not int or not 1 <= value <= MAX_PID:
        return "must be a positive integer"
    return None if owns_process(value) else "must be a running process of this user"


def _host(value: object) -> str | None:
    if isinstance(value, str) and value in LOOPBACK_HOSTS:
        return None
    return "must be 127.0.0.1, ::1 or localhost"


def _kind(value: object) -> str | None:
    return None if value in ("workspace-server", "editor") else 'must be "workspace-server" or "editor"'


def _folders(value: object, path: _Check) -> str | None:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_FOLDERS:
        return f"must be a list of 1 to {MAX_FOLDERS} absolute paths"
    return next((problem for problem in map(path, value) if problem is not None), None)


def _path(value: object, windows: bool) -> str | None:
    if not isinstance(value, str) or "\0" in value or len(value) > MAX_PATH:
        return f"must be an absolute path of at most {MAX_PATH} characters"
    if _LONE_SURROGATE.search(value):
        return "must not contain lone surrogates"
    absolute = _WINDOWS_ABSOLUTE.match(value) if windows else value.startswith("/")
    return None if absolute else "must be an absolute path"
