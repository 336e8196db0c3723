"""A table of requests that must be refused on every route of an application served by `Runner`.

`CASES` are raw requests with the status they must get on every route; `JSON_CASES` are bodies for the JSON-RPC
endpoints. `exchange` sends bytes as they are and reads until the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from aiohttp import web

Build = Callable[[str, str, str], bytes]
"""(method, path, our authority such as `127.0.0.1:49152`) -> the raw request."""

BODY = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@dataclass(frozen=True)
class Case:
    """One request. `method` restricts it to routes of that method."""

    name: str
    build: Build
    statuses: frozenset[int]
    method: str | None = None


@dataclass(frozen=True)
class Reply:
    """What came back until the server closed. `status` is 0 when nothing did."""

    status: int
    headers: dict[str, str]
    body: bytes
    raw: bytes


def request(
    method: str,
    path: str,
    host: str | None,
    *extra: str,
    body: bytes | None = None,
    content_type: str | None = "application/json",
) -> bytes:
    """A well-formed request; `extra` are header lines, POST has a body and its two headers by default."""
    lines = [f"{method} {path} HTTP/1.1"]
    if host is not None:
        lines.append(f"Host: {host}")
    if method == "POST" and body is None:
        body = BODY
    if method == "POST" and content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    framed = any(line.lower().startswith(("content-length:", "transfer-encoding:")) for line in extra)
    if body is not None and not framed:
        lines.append(f"Content-Length: {len(body)}")
    head = "\r\n".join([*lines, *extra]) + "\r\n\r\n"
    return head.encode("latin-1") + (body or b"")


def with_lines(
    *extra: str, body: bytes | None = None, content_type: str | None = "application/json"
) -> Build:
    """A builder of good requests with these header lines added."""
    return lambda method, path, host: request(
        method, path, host, *extra, body=body, content_type=content_type
    )


def with_host(template: str | None) -> Build:
    """A builder of requests to another authority; `{port}` stands for our port."""

    def build(method: str, path: str, host: str) -> bytes:
        port = host.rpartition(":")[2]
        return request(method, path, None if template is None else template.format(port=port))

    return build


def _replaced(old: bytes, new: bytes) -> Build:
    return lambda method, path, host: request(method, path, host, "X-Mark: here").replace(old, new, 1)


def _absolute(authority: str) -> Build:
    return lambda method, path, host: request(method, f"http://{authority.format(host=host)}{path}", host)


def _any(name: str, build: Build, *statuses: int) -> Case:
    return Case(name, build, frozenset(statuses))


def _post(name: str, build: Build, *statuses: int) -> Case:
    return Case(name, build, frozenset(statuses), "POST")


CASES: tuple[Case, ...] = (
    _any("foreign host", with_host("evil.example:{port}"), 421),
    _any("host without port", with_host("127.0.0.1"), 421),
    _any("host with another port", with_host("127.0.0.1:1"), 421),
    _any("host with user info", with_host("localhost:x@evil"), 421),
    _any("host with user info and port", with_host("evil@localhost:{port}"), 421),
    _any("host of a wildcard domain", with_host("127.0.0.1.nip.io:{port}"), 421),
    _any("host with trailing dot", with_host("LOCALHOST.:{port}"), 421),
    _any("host 0.0.0.0", with_host("0.0.0.0:{port}"), 421),
    _any("empty host", with_host(""), 400, 421),
    _any("no host", with_host(None), 400),
    _any("two hosts", lambda m, p, h: request(m, p, h, f"Host: {h}"), 400),
    _any("two hosts, one evil", with_lines("Host: evil.example"), 400),
    _any("absolute target of another host", _absolute("evil.example"), 400, 421),
    _any("absolute target of our own host", _absolute("{host}"), 400),
    _any("connect", lambda m, p, h: request("CONNECT", h, h), 400, 405),
    _any("connect to a path", lambda m, p, h: request("CONNECT", p, h), 400, 405),
    _any("target is a star", lambda m, p, h: request("OPTIONS", "*", h), 400, 405),
    _any("foreign origin", with_lines("Origin: https://evil.example"), 403),
    _any("null origin", with_lines("Origin: null"), 403),
    _any("file origin", with_lines("Origin: file://"), 403),
    _any("origin of another local port", with_lines("Origin: http://localhost:9999"), 403),
    _any("empty origin", with_lines("Origin:"), 403),
    _any(
        "own origin and a foreign one",
        lambda m, p, h: request(m, p, h, f"Origin: http://{h}", "Origin: http://evil.example"),
        403,
    ),
    _any("https origin of our port", lambda m, p, h: request(m, p, h, f"Origin: https://{h}"), 403),
    _any("foreign referer", with_lines("Referer: https://evil.example/page"), 403),
    _any(
        "referer with our name as user", lambda m, p, h: request(m, p, h, f"Referer: http://{h}@evil/"), 403
    ),
    _any("cross-site fetch", with_lines("Sec-Fetch-Site: cross-site"), 403),
    _any("same-site fetch", with_lines("Sec-Fetch-Site: same-site"), 403),
    _any(
        "preflight of a page",
        with_lines("Origin: http://evil.example", "Access-Control-Request-Private-Network: true"),
        403,
    ),
    _any("two sessions", with_lines("Mcp-Session-Id: a", "Mcp-Session-Id: b"), 400),
    _any(
        "two versions",
        with_lines("MCP-Protocol-Version: 2025-11-25", "mcp-protocol-version: 2025-11-25"),
        400,
    ),
    _any("two methods named", with_lines("Mcp-Method: tools/list", "Mcp-Method: tools/call"), 400),
    _any("two names", with_lines("Mcp-Name: a", "Mcp-Name: b"), 400),
    _any("two workspaces", with_lines("X-Workspace-Cwd: /a", "X-Workspace-Cwd: /b"), 400),
    _any("header of 17 KB", with_lines("X-Big: " + "x" * 17_000), 431),
    _any("header of 70 KB", with_lines("X-Big: " + "x" * 70_000), 431),
    _any("header of 1 MB", with_lines("X-Big: " + "x" * 1_000_000), 431),
    _any("5,000 headers", with_lines(*(f"X-{number}: y" for number in range(5_000))), 431),
    _any("101 short headers", with_lines(*(f"X-{number}: y" for number in range(101))), 431),
    _any("target of 20 KB", lambda m, p, h: request(m, p + "?q=" + "x" * 20_000, h), 431),
    _any("length and chunks", with_lines("Content-Length: 2", "Transfer-Encoding: chunked", body=b"{}"), 400),
    _any("two lengths", with_lines("Content-Length: 2", "Content-Length: 2", body=b"{}"), 400),
    _any("length with sign", with_lines("Content-Length: +2", body=b"{}"), 400),
    _any("length list", with_lines("Content-Length: 2, 2", body=b"{}"), 400),
    _any("length of 100 GB", with_lines("Content-Length: 99999999999", body=b"{}"), 413),
    _any("length of 5,000 digits", with_lines("Content-Length: " + "9" * 5_000, body=b"{}"), 413),
    _any("gzip as transfer coding", with_lines("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 400),
    _any("chunked twice", with_lines("Transfer-Encoding: chunked, chunked", body=b"0\r\n\r\n"), 400),
    _any("gzip body", with_lines("Content-Encoding: gzip"), 415),
    _any("brotli body", with_lines("Content-Encoding: br"), 415),
    _any("unknown expectation", with_lines("Expect: the-unexpected"), 417),
    _any("bare line feeds", lambda m, p, h: request(m, p, h).replace(b"\r\n", b"\n"), 400),
    _any("one bare line feed", _replaced(b"\r\nX-Mark", b"\nX-Mark"), 400),
    _any("folded line", _replaced(b"X-Mark: here", b"X-Mark: here\r\n and there"), 400),
    _any("blank before colon", _replaced(b"X-Mark:", b"X-Mark :"), 400),
    _any("NUL in a value", _replaced(b"here", b"he\0re"), 400),
    _any("carriage return in a value", _replaced(b"here", b"he\rre"), 400),
    _any("HTTP/0.9", lambda m, p, h: f"{m} {p}\r\n\r\n".encode(), 400),
    _any("HTTP/2.0 on the line", _replaced(b"HTTP/1.1", b"HTTP/2.0"), 400),
    _any("HTTP/2 preface", lambda m, p, h: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    _any("TLS hello", lambda m, p, h: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), 400),
    _any("raw JSON line", lambda m, p, h: BODY + b"\n", 400),
    _post("text/plain", with_lines(content_type="text/plain"), 415),
    _post("text/plain that mentions JSON", with_lines(content_type="text/plain; application/json"), 415),
    _post("form", with_lines(content_type="application/x-www-form-urlencoded"), 415),
    _post("multipart", with_lines(content_type="multipart/form-data; boundary=x"), 415),
    _post("no content type", with_lines(content_type=None), 415),
    _post("another charset", with_lines(content_type="application/json; charset=utf-16"), 415),
    _post("two content types", with_lines("Content-Type: text/plain"), 400),
)

METHODS_NEVER_SERVED = ("HEAD", "OPTIONS", "TRACE", "PUT", "PATCH")


@dataclass(frozen=True)
class JsonCase:
    """A body for an MCP route; `code` is the JSON-RPC error code in the answer, None when it is served."""

    name: str
    body: bytes
    code: int | None = -32700


def _message(arguments: bytes) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + arguments + b"}}"


JSON_CASES: tuple[JsonCase, ...] = (
    JsonCase("empty", b""),
    JsonCase("depth 100,000", _message(b"[" * 100_000 + b"]" * 100_000)),
    JsonCase("depth 100,000, never closed", b"[" * 100_000),
    JsonCase("depth 129", _message(b"[" * 127 + b"]" * 127)),
    JsonCase("250,000 values", _message(b"[" + b",".join([b"{}"] * 250_000) + b"]")),
    JsonCase("NaN", _message(b"NaN")),
    JsonCase("Infinity", _message(b"-Infinity")),
    JsonCase("lone surrogate", _message(b'"\\ud800"')),
    JsonCase("invalid UTF-8", _message(b'"\xff"')),
    JsonCase("byte order mark", b"\xef\xbb\xbf" + _message(b"1")),
    JsonCase("UTF-16", _message(b"1").decode().encode("utf-16")),
    JsonCase("trailing bytes", _message(b"1") + b"x"),
    JsonCase("second message", _message(b"1") * 2),
    JsonCase("integer of 5,000 digits", _message(b"9" * 5_000), None),
    JsonCase("depth 128", _message(b"[" * 126 + b"]" * 126), None),
    JsonCase("brackets in a string", _message(b'"' + b"[{" * 5_000 + b'"'), None),
    JsonCase("surrogate pair", _message(b'"\\ud83d\\ude00 \\\\ud800"'), None),
)


def iter_routes(app: web.Application) -> Iterator[tuple[str, str]]:
    """(method, path) of every route, placeholders filled with `x`."""
    for route in app.router.routes():
        if route.resource is not None:
            yield route.method, re.sub(r"\{[^}]*\}", "x", route.resource.canonical)


def allowed_methods(app: web.Application) -> dict[str, set[str]]:
    """Path -> the methods it is registered for."""
    allowed: dict[str, set[str]] = {}
    for method, path in iter_routes(app):
        allowed.setdefault(path, set()).add(method)
    return allowed


def parse_reply(raw: bytes) -> Reply:
    """Split one answer; `body` is whatever follows the head."""
    head, _, body = raw.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    status = int(line.split(" ")[1]) if line else 0
    headers = {name.lower(): value.strip() for name, _, value in (field.partition(":") for field in fields)}
    return Reply(status, headers, body, raw)


async def exchange(port: int, raw: bytes, *, within: float = 5.0) -> Reply:
    """Send the bytes and read until the server closes.

    Raises:
        TimeoutError: the server has not closed within that many seconds.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = bytearray()
    try:
        async with asyncio.timeout(within):
            writer.write(raw)
            # A server that refuses early may close while we are still sending.
            with contextlib.suppress(ConnectionError):
                while chunk := await reader.read(65_536):
                    received += chunk
    finally:
        writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return parse_reply(bytes(received))
