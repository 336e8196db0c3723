"""Warms the fork server up: loads and runs once what the first requests of a server need.

The requests are those of a manager's handshake and a first call, sent to a real server for an empty temporary
workspace and user, which are removed afterwards. `fork_server.py` forks.
"""

from __future__ import annotations

import asyncio
import importlib
import secrets
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from lm_tools_bridge.machine.files.private_folder import temporary_folder
from lm_tools_bridge.machine.peers.peer_uid import close_kernel_socket
from lm_tools_bridge.protocol import headers, inbound, jsonrpc, names
from lm_tools_bridge.protocol.internal.launch import Folders, LaunchInstructions
from lm_tools_bridge.protocol.versions import MODERN_REVISIONS
from workspace_server import log, server_process

LOADED_LATER: Final = ("uvloop", "workspace_server.internal_channel.service")
"""Modules that a server loads at other times than with its first calls."""
_OURS: Final = ("lm_tools_bridge.", "workspace_server.")
_CALLS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    (names.DISCOVER, {}),
    (names.TOOLS_LIST, {}),
    (names.TOOLS_CALL, {"name": "calculator", "arguments": {"expression": "6 * 7"}}),
)


def run() -> None:
    """Load everything. A failure here only costs the forked servers time."""
    for module in LOADED_LATER:
        with suppress(ImportError):  # not on every platform
            importlib.import_module(module)
    try:
        folder = temporary_folder()
        folder.open()
        try:
            asyncio.run(_run(folder.path))
        finally:
            folder.close()
    except Exception as fault:  # noqa: BLE001  the servers load what is missing themselves
        log.fault("warm_up_failed", fault)
    _clear_caches()
    close_kernel_socket()


async def _run(folder: Path) -> None:
    secret = secrets.token_urlsafe(32)
    paths = {name: folder / name for name in ("root", "config", "state", "runtime")}
    for path in paths.values():
        path.mkdir(mode=0o700)
    root = str(paths.pop("root"))
    folders = Folders(**{name: str(path) for name, path in paths.items()})
    with socket.create_server(("127.0.0.1", 0)) as sock:
        launch = LaunchInstructions(
            names.FORK_SERVER_INSTANCE,
            root,
            names.FORK_SERVER_INSTANCE,
            "",
            secret,
            sock.fileno(),
            folders=folders,
        )
        async with server_process.serving(launch, sock):
            await _ask(sock.getsockname()[1], secret)


async def _ask(port: int, secret: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    common = {"Host": f"127.0.0.1:{port}", headers.SECRET: secret}
    try:
        for path in (names.HEALTH_PATH, names.INSPECT_PATH):
            writer.write(_request("GET", path, common))
            await _answer(reader)
        for number, (method, params) in enumerate(_CALLS):
            fields, body = _message(number, method, params)
            writer.write(_request("POST", names.MCP_PATH, {**common, **fields}, body))
            await _answer(reader)
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


async def _answer(reader: asyncio.StreamReader) -> None:
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
    ours = [module for name, module in sys.modules.items() if name.startswith(_OURS)]
    for value in (value for module in ours for value in tuple(vars(module).values())):
        if callable(clear := getattr(value, "cache_clear", None)):
            clear()
