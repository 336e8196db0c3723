"""Sends requests to a running manager: over its control socket, and stateless to its MCP endpoint.

For the command line, whose short verbs answer in less than 0.1 s: standard library only, and HTTP/1.0 written
by hand for the control socket, because `http.client` takes 20 ms to import. It never starts a manager and
never retries.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from lm_tools_bridge.machine.own_process import own_euid

if TYPE_CHECKING:
    import http.client

ANSWER_S: Final = 5.0
"""Longest the control socket may take to answer."""
CALL_S: Final = 3630.0
"""Longest an MCP answer may take; the manager's own deadline, an hour at most, comes first."""
# As much as a socket usually has at once; answers are longer and need several reads.
_READ_BYTES: Final = 64 * 1024


class NoManager(Exception):
    """No manager answers."""


class ManagerFault(Exception):
    """A program answers, but its answer is unusable. The message is for people."""


class ControlRefusal(Exception):
    """The manager refused the request.

    `status` is the HTTP status, `reason` the code, e.g. `forbidden`, and `message` a sentence for people, if
    the manager sent one.
    """

    def __init__(self, status: int, reason: str, message: str | None = None) -> None:
        super().__init__(message or f"the manager refused: {reason} (HTTP {status})")
        self.status = status
        self.reason = reason


class Control:
    """The control socket of one user's manager.

    Attributes:
        answered_by: the version of the manager that answered last, in this process; None if none did.
    """

    answered_by: ClassVar[str | None] = None

    def __init__(self, path: Path, timeout_s: float = ANSWER_S) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def get(self, target: str) -> dict[str, Any]:
        """The JSON object at `target`, e.g. `/status`.

        Raises:
            NoManager: no manager listens.
            ManagerFault: no answer in time, a malformed answer, or the folder belongs to another user.
            ControlRefusal: the manager answered with an HTTP error.
        """
        return self._send(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())

    def post(self, target: str, payload: Mapping[str, object]) -> dict[str, Any]:
        """POST a JSON object. Returns and raises what `get` does."""
        body = json.dumps(payload).encode()
        head = (
            f"POST {target} HTTP/1.0\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return self._send(head.encode() + body)

    def _send(self, request: bytes) -> dict[str, Any]:
        deadline = time.monotonic() + self._timeout_s
        with self._connect() as sock:
            answer = bytearray()
            try:
                sock.sendall(request)
                while chunk := _receive(sock, deadline):
                    answer += chunk
            except TimeoutError as error:
                text = f"the manager did not answer on {self._path} within {self._timeout_s:g} s"
                raise ManagerFault(text) from error
            except OSError as error:
                raise ManagerFault(f"the connection to the manager broke off: {error}") from error
        Control.answered_by = _version(answer) or Control.answered_by
        return _decode(bytes(answer))

    def _connect(self) -> socket.socket:
        if sys.platform == "win32":
            raise NoManager("there is no control socket on this system")
        _check_owner(self._path.parent)
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(self._timeout_s)
        try:
            sock.connect(os.fspath(self._path))
        except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as error:
            sock.close()
            raise NoManager(str(self._path)) from error
        except OSError as error:
            sock.close()
            raise ManagerFault(f"{self._path} cannot be used: {error}") from error
        return sock


def _check_owner(folder: Path) -> None:
    """Refuse a folder of another user, which may hold a socket that imitates the manager."""
    try:
        status = folder.lstat()
    except FileNotFoundError as error:
        raise NoManager(str(folder)) from error
    except OSError as error:
        raise ManagerFault(f"{folder} cannot be used: {error}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != own_euid():
        raise ManagerFault(f"{folder} is not a folder of this user")


def _receive(sock: socket.socket, deadline: float) -> bytes:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)
    return sock.recv(_READ_BYTES)


def _version(answer: bytes | bytearray) -> str | None:
    """The version in the head of an answer; older managers send none."""
    for line in bytes(answer).partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        product, _, version = value.strip().partition(b"/")
        if name.lower() == b"server" and product == b"lm-tools-bridge":
            return version.decode("ascii", "replace")
    return None


def _decode(answer: bytes) -> dict[str, Any]:
    if not answer:
        raise ManagerFault("the manager closed the connection without an answer")
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split()
    try:
        status, value = int(words[1]), json.loads(body)
    except (IndexError, ValueError, RecursionError) as error:
        raise ManagerFault("what answers on the control socket is not the manager") from error
    if not isinstance(value, dict):
        raise ManagerFault("what answers on the control socket is not the manager")
    if status != 200:
        reason, message = value.get("reason") or value.get("error") or "unknown", value.get("message")
        raise ControlRefusal(status, str(reason), message if isinstance(message, str) else None)
    return value


class McpAnswer(NamedTuple):
    """An answer: the JSON-RPC message with `result` or `error`, and the workspace that served it, if any."""

    message: dict[str, Any]
    workspace: str | None
    source: str | None


class McpClient:
    """A stateless MCP client of the manager for one folder, which it sends as `?cwd=`.

    `capabilities` are those that it declares with each request, `own_headers` what
    `lm_tools_bridge.machine.own_token` reads. A part of an answer takes `limit_s` at most.
    """

    def __init__(
        self,
        address: str,
        cwd: str,
        version: str,
        capabilities: Mapping[str, object] | None = None,
        *,
        own_headers: Mapping[str, str] | None = None,
        limit_s: float = CALL_S,
    ) -> None:
        from urllib.parse import quote, urlsplit

        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "127.0.0.1", parts.port or 80
        # bytes, because a path need not be UTF-8
        self._target = f"{parts.path}?cwd={quote(os.fsencode(cwd), safe='/')}"
        self._version = version
        self._capabilities = capabilities or {}
        self._own_headers = own_headers or {}
        self._limit_s = limit_s

    def request(self, method: str, params: Mapping[str, object]) -> McpAnswer:
        """Send a request and return its response; notifications before it are dropped.

        Raises:
            NoManager: no manager listens.
            ManagerFault: the answer cannot be used, or a program of another user listens there.
        """
        import http.client  # 20 ms that the short verbs do not need

        from lm_tools_bridge.machine.proved_server import require_own_server
        from lm_tools_bridge.protocol import headers

        body, head = self._message(method, params)
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._limit_s)
        try:
            connection.connect()
            ends = connection.sock.getsockname(), connection.sock.getpeername()
            require_own_server(*ends, has_secret=bool(self._own_headers))
            connection.request("POST", self._target, body, head)
            response = connection.getresponse()
            message = _message_in(response)
        except ConnectionRefusedError as error:
            raise NoManager(f"{self._host}:{self._port}") from error
        except (OSError, http.client.HTTPException) as error:
            raise ManagerFault(f"the connection to the manager broke off: {error}") from error
        finally:
            connection.close()
        if "result" not in message and "error" not in message:
            raise ManagerFault(f"{self._host}:{self._port} does not answer like a manager")
        return McpAnswer(
            message, response.getheader(headers.WORKSPACE_ID), response.getheader(headers.WORKSPACE_SOURCE)
        )

    def _message(self, method: str, params: Mapping[str, object]) -> tuple[bytes, dict[str, str]]:
        from lm_tools_bridge.protocol import headers, names
        from lm_tools_bridge.protocol.names import LATEST_MODERN

        meta = {
            names.META_VERSION: LATEST_MODERN,
            names.META_CAPABILITIES: self._capabilities,
            names.META_CLIENT: {"name": names.COMMAND_LINE, "version": self._version},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        head = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            headers.VERSION: LATEST_MODERN,
            headers.METHOD: method,
            **self._own_headers,
        }
        if method in names.NAMED_PARAM:
            head[headers.NAME] = headers.encode_value(str(params[names.NAMED_PARAM[method]]))
        return json.dumps(message).encode(), head


def _message_in(response: http.client.HTTPResponse) -> dict[str, Any]:
    """The JSON-RPC message in an HTTP response, or {} if there is none."""
    body = response.read()
    if (response.getheader("Content-Type") or "").startswith("text/event-stream"):
        from lm_tools_bridge.protocol import sse

        candidates = [event.data for event in sse.Decoder().feed(body)]
    else:
        candidates = [body]
    for candidate in reversed(candidates):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and ("result" in value or "error" in value):
            return value if isinstance(value.get("error", {}), dict) else _as_json_rpc_error(response, value)
    return {}


def _as_json_rpc_error(response: http.client.HTTPResponse, value: Mapping[str, Any]) -> dict[str, Any]:
    """Errors of admission are plain texts, not JSON-RPC."""
    return {"error": {"code": response.status, "message": str(value["error"])}}
