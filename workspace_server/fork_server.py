"""Runs the fork server, a process with all modules loaded, from which workspace servers are forked.

Linux only. It has one thread, no event loop, and nothing of a user or a project; a forked server gets those
from its instructions and the descriptors that come with them. It ends when the manager closes its end of the
socket; forked servers continue. `lm_tools_bridge.protocol.internal.fork_server` defines the messages.

To load everything, it sends the requests of a manager's handshake and a first call to a real server for an
empty temporary workspace and user, which are removed afterwards. It does so twice: the second time shows
which code every server runs, and that code is moved together, so that servers share more memory.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import os
import secrets
import select
import signal
import site
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from lm_tools_bridge.machine.peer_uid import close_kernel_socket
from lm_tools_bridge.machine.private_folder import temporary_folder
from lm_tools_bridge.machine.process_ending import require_pidfd
from lm_tools_bridge.machine.unix_sockets import receive_descriptors
from lm_tools_bridge.protocol import headers, inbound, jsonrpc, names
from lm_tools_bridge.protocol.internal import fork_server
from lm_tools_bridge.protocol.internal.fork_server import Exited, Forked, ForkRequest, Ready
from lm_tools_bridge.protocol.internal.launch import Folders, LaunchInstructions, decode, encode
from lm_tools_bridge.protocol.names import FORK_SERVER_INSTANCE, MODERN_REVISIONS
from workspace_server import log, server_process

LOADED_LATER: Final = ("uvloop",)
"""Modules that a server loads at other times than with its first calls."""
_OUR_PACKAGES: Final = ("lm_tools_bridge.", "workspace_server.")
_FILE: Final = "file"
_CALLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (names.DISCOVER, {}),
    (names.TOOLS_LIST, {}),
    (names.TOOLS_CALL, {"name": "lm_readFile", "arguments": {"filePath": _FILE}}),
    *((names.TOOLS_CALL, {"name": "calculator", "arguments": {"expression": "6 * 7"}}),) * 2,  # and repeated
)


def load_everything() -> None:
    """Load everything. A failure here only costs the forked servers time."""
    for module in LOADED_LATER:
        with suppress(ImportError):  # not on every platform
            importlib.import_module(module)
    _serve_once()
    gc.collect()
    with recorded_code() as executed:
        _serve_once()
    move_code_together(executed)
    _clear_caches()
    close_kernel_socket()


def _serve_once() -> None:
    try:
        folder = temporary_folder()
        folder.open()
        try:
            asyncio.run(_answer_first_requests(folder.path))
        finally:
            folder.close()
    except Exception as fault:  # noqa: BLE001  the servers load what is missing themselves
        log.fault("warm_up_failed", fault)


@contextmanager
def recorded_code() -> Iterator[list[CodeType]]:
    """The code of all functions that any thread calls inside; complete after the block."""
    executed: dict[int, CodeType] = {}  # by identity: equal code may come from different files
    before = sys.getprofile()

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            executed[id(frame.f_code)] = frame.f_code

    codes: list[CodeType] = []
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        yield codes
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
        codes.extend(executed.values())


_moved: Final[list[CodeType]] = []
"""What was replaced stays: each server would fill the holes, and so get pages of its own there, too."""


def move_code_together(executed: Iterable[CodeType]) -> None:
    """Replace the code of functions by copies that lie one behind another in memory.

    A call writes to the reference count of its code, and the first write of a forked server to a page gives
    it a page of its own. Loading has spread the code that servers run between code that they do not run:
    moved together, it takes a further server 2.1 MB less.
    """
    codes = list(executed)
    own = {id(code) for code in codes}
    copies: dict[int, CodeType] = {}

    def copied(code: CodeType) -> CodeType:
        if id(code) not in copies:
            inner = (copied(one) if id(one) in own else one for one in code.co_consts)
            copies[id(code)] = code.replace(co_consts=tuple(inner))
        return copies[id(code)]

    gc.collect()  # what it frees would be between the copies
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and id(function.__code__) in own:
            function.__code__ = copied(function.__code__)
    _moved.extend(codes)


async def _answer_first_requests(folder: Path) -> None:
    secret = secrets.token_urlsafe(32)
    paths = {name: folder / name for name in ("root", "config", "state", "runtime")}
    for path in paths.values():
        path.mkdir(mode=0o700)
    (paths["root"] / _FILE).touch()
    root = str(paths.pop("root"))
    folders = Folders(**{name: str(path) for name, path in paths.items()})
    with socket.create_server(("127.0.0.1", 0)) as sock:
        instance, listener = names.FORK_SERVER_INSTANCE, sock.fileno()
        launch = LaunchInstructions(instance, root, instance, "", secret, listener, folders=folders)
        launch = decode(encode(launch))  # as a manager sends them
        async with server_process.serving(launch, sock) as (_, parts):
            await _send_requests(sock.getsockname()[1], secret)
            await parts.open_internal_channel()


async def _send_requests(port: int, secret: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    common = {"Host": f"127.0.0.1:{port}", headers.SECRET: secret}
    try:
        for path in (names.HEALTH_PATH, names.INSPECT_PATH):
            writer.write(_request("GET", path, common))
            await _read_response(reader)
        for number, (method, params) in enumerate(_CALLS):
            fields, body = _message(number, method, params)
            writer.write(_request("POST", names.MCP_PATH, {**common, **fields}, body))
            await _read_response(reader)
    finally:
        writer.close()
        await writer.wait_closed()


def _message(number: int, method: str, params: dict[str, Any]) -> tuple[dict[str, str], bytes]:
    meta = inbound.modern_meta(msgspec.Raw(b"{}"), jsonrpc.raw({"name": "warm-up", "version": "0"}))
    body = jsonrpc.request(jsonrpc.dumps(number), method, {**params, "_meta": meta})
    fields = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        headers.VERSION: MODERN_REVISIONS[0],
        headers.METHOD: method,
    }
    return {**fields, headers.NAME: params["name"]} if "name" in params else fields, body


def _request(method: str, path: str, fields: dict[str, str], body: bytes = b"") -> bytes:
    all_fields = {**fields, "Content-Length": str(len(body))}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in all_fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


async def _read_response(reader: asyncio.StreamReader) -> None:
    """Read one response to its end.

    Raises:
        ValueError: it is an error response, so nothing was warmed up.
    """
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.partition(b"\r\n")[0]:
        raise ValueError(head.partition(b"\r\n")[0])
    fields = head.lower().split(b"\r\n")
    length = next(int(field.partition(b":")[2]) for field in fields if field.startswith(b"content-length:"))
    body = await reader.readexactly(length)
    if "error" in msgspec.json.decode(body, type=dict[str, msgspec.Raw]):
        raise ValueError(body)


def _clear_caches() -> None:
    """Clear the caches of our functions: they may hold what belongs to this process, such as descriptors."""
    ours = [module for name, module in sys.modules.items() if name.startswith(_OUR_PACKAGES)]
    for value in (value for module in ours for value in tuple(vars(module).values())):
        if callable(clear := getattr(value, "cache_clear", None)):
            clear()


HAS_THREADS: Final = 3
"""Exit code if a library started a thread: its locks would stay locked for ever after a fork."""
KEEPS_DESCRIPTORS: Final = 4
"""Exit code if loading left a file or socket open. Forked servers close it by its number, and its object
would close whatever gets that number next, such as the event loop's own socket."""
_OURS: Final = frozenset({"__main__", "lm_tools_bridge", "workspace_server"})
_ARGUMENTS_START, _ENVIRONMENT_END = 45, 48
"""Positions of these addresses in `/proc/self/stat`, counted from the field after the name."""


class _ForkRequest(NamedTuple):
    fork: ForkRequest
    listener: int
    stdin: int
    log: int
    folder: int


def main() -> NoReturn:
    """Run the fork server; in a forked child, run the workspace server."""
    channel = _take_channel()
    before = os.listdir("/proc/self/fd")
    load_everything()
    if os.listdir("/proc/self/fd") != before:
        log.error("fork_server_keeps_descriptors")
        os._exit(KEEPS_DESCRIPTORS)
    if len(os.listdir("/proc/self/task")) != 1:
        log.error("fork_server_has_threads")
        os._exit(HAS_THREADS)
    loaded = _loaded_files()
    stamp = _file_states(loaded)
    gc.collect()
    gc.freeze()
    channel.send(fork_server.encode(Ready()))
    request = _ForkServer(channel, lambda: _file_states(loaded) == stamp).until_forked()
    if request is None:
        os._exit(0)
    try:
        _become_server(request, channel)
    except OSError as error:
        log.error("fork_failed", cause=str(error))
        os._exit(server_process.INVALID_INSTRUCTIONS)
    server_process.main()


def _take_channel() -> socket.socket:
    """The manager's socket, which is passed as standard input."""
    channel = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return channel


def _loaded_files() -> tuple[str, ...]:
    """The files that tell whether a new process would load another version: ours, and the site folders."""
    ours = (module.__file__ for name, module in sys.modules.items() if name.partition(".")[0] in _OURS)
    return sys.executable, os.path.dirname(os.__file__), *site.getsitepackages(), *filter(None, ours)


def _file_states(paths: Sequence[str]) -> list[tuple[int, int] | None]:
    """Modification time and size of these files and folders now."""
    return [_state(path) for path in paths]


def _state(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


class _ForkServer:
    """Receives fork requests, forks, and reaps forked servers."""

    def __init__(self, channel: socket.socket, is_current: Callable[[], bool]) -> None:
        self._channel = channel
        self._is_current = is_current
        self._poll = select.poll()
        self._poll.register(channel, select.POLLIN)
        self._children: dict[int, tuple[int, str]] = {}

    def until_forked(self) -> _ForkRequest | None:
        """Returns in each forked server with its request; in the fork server None, when it has to end."""
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor in self._children:
                    self._reap(descriptor)
                    continue
                request = self._receive()
                if request is None or not self._is_current():
                    return None
                if self._fork(request):
                    return request

    def _receive(self) -> _ForkRequest | None:
        try:
            message, descriptors = receive_descriptors(
                self._channel, fork_server.MESSAGE_LIMIT, fork_server.DESCRIPTORS
            )
        except ConnectionError:
            return None
        if not message or len(descriptors) != fork_server.DESCRIPTORS:
            return None
        return _ForkRequest(fork_server.decode_request(message), *descriptors)

    def _fork(self, request: _ForkRequest) -> bool:
        """Fork; True in the forked server."""
        pid = os.fork()
        if pid == 0:
            return True
        for descriptor in request[1:]:
            os.close(descriptor)
        watch = require_pidfd(pid)
        self._children[watch] = pid, request.fork.instance
        self._poll.register(watch, select.POLLIN)
        return False

    def _reap(self, watch: int) -> None:
        """Kill the rest of a server's process group before its pid can be reused; report its exit code."""
        pid, instance = self._children.pop(watch)
        self._poll.unregister(watch)
        os.close(watch)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        with suppress(OSError):  # the reader sees the end of the channel
            self._channel.send(fork_server.encode(Exited(instance, code)))


def _become_server(request: _ForkRequest, channel: socket.socket) -> None:
    """Set up what a freshly started server would have, and close what belongs to the fork server.

    Raises:
        OSError: the working folder cannot be entered, or the manager is gone.
    """
    os.setsid()
    for here, there in ((request.stdin, 0), (request.log, 1), (request.log, 2)):
        os.dup2(here, there)
    os.fchdir(request.folder)
    _set_environment(request.fork.environ)
    _set_process_name(request.fork.instance)
    own = require_pidfd(os.getpid())
    socket.send_fds(channel, [fork_server.encode(Forked(request.fork.instance, os.getpid()))], [own])
    channel.detach()
    if request.listener != request.fork.listen_fd:
        os.dup2(request.listener, request.fork.listen_fd, inheritable=False)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != request.fork.listen_fd:
            with suppress(OSError):  # the descriptor of this listing is closed already
                os.close(int(name))


def _set_environment(block: bytes) -> None:
    os.environ.clear()
    for entry in block.split(b"\0")[:-1]:
        name, _, value = entry.partition(b"=")
        os.environb[name] = value
    time.tzset()


def _set_process_name(instance: str) -> None:
    """Show this instance's id instead of the fork server's in the process's arguments and environment.

    Only people read it there, so a failure is ignored.
    """
    old, new = FORK_SERVER_INSTANCE.encode(), instance.encode()
    if len(new) != len(old):
        return
    with suppress(OSError, ValueError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ENVIRONMENT_END])
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            text = memory.read(end - start)
            at = -1
            while (at := text.find(old, at + 1)) >= 0:
                memory.seek(start + at)
                memory.write(new)
