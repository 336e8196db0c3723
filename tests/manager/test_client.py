"""Tests of the client of the control socket against answers of every kind."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manager.client import Control, ControlRefusal, ManagerFault, McpClient, NoManager

Serve = Callable[[bytes], Path]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A socket that reads one request and sends these bytes."""
    listener = socket.socket(socket.AF_UNIX)
    threads: list[threading.Thread] = []

    def start(answer: bytes) -> Path:
        path = tmp_path / "control.sock"
        listener.bind(str(path))
        listener.listen()

        def once() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        threads.append(threading.Thread(target=once, daemon=True))
        threads[-1].start()
        return path

    yield start
    for thread in threads:
        thread.join(5)
    listener.close()


def test_answer_is_the_object_in_the_body(serve: Serve) -> None:
    assert Control(serve(b'HTTP/1.1 200 OK\r\nX: y\r\n\r\n{"ok": true}')).get("/health") == {"ok": True}


def test_http_error_is_a_refusal_with_its_reason(serve: Serve) -> None:
    path = serve(b'HTTP/1.1 409 Conflict\r\n\r\n{"ok": false, "reason": "version_mismatch"}')
    with pytest.raises(ControlRefusal, match="version_mismatch") as caught:
        Control(path).post("/shutdown", {})
    assert caught.value.status == 409


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b"HTTP/1.1 x OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n\xff",
    ],
)
def test_malformed_answer_is_a_fault_and_never_a_crash(serve: Serve, answer: bytes) -> None:
    with pytest.raises(ManagerFault):
        Control(serve(answer)).get("/status")


def test_silence_ends_at_the_deadline(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(ManagerFault, match="did not answer"):
            Control(tmp_path / "s", timeout_s=0.05).get("/status")


def test_missing_folder_missing_socket_and_dead_socket_mean_no_manager(tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(dead))
    for path in (tmp_path / "no" / "s", tmp_path / "s", dead):
        with pytest.raises(NoManager):
            Control(path).get("/status")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_socket_in_another_users_folder_is_never_asked(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        listener.listen()
        os.chown(folder, 65534, 65534)
        with pytest.raises(ManagerFault, match="not a folder of this user"):
            Control(folder / "s").get("/status")
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_endpoint_without_a_listener_means_no_manager() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, so that nobody else gets it, but not listening
        with pytest.raises(NoManager):
            McpClient(f"http://127.0.0.1:{taken.getsockname()[1]}/mcp", "/", "1").request("tools/list", {})


def endpoint(answer: bytes) -> tuple[str, threading.Thread, list[bytes]]:
    """An MCP endpoint that answers one request with these bytes, and what it was sent."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def once() -> None:
        with listener:
            connection, _ = listener.accept()
        with connection:
            # all of it: closing with bytes unread would reset the connection under the answer
            with connection.makefile("rb") as file:
                head = b"".join(iter(file.readline, b"\r\n"))
                asked.append(head)
                file.read(int(head.lower().split(b"content-length:")[1].split()[0]))
            connection.sendall(answer)

    thread = threading.Thread(target=once, daemon=True)
    port = listener.getsockname()[1]
    thread.start()
    return f"http://127.0.0.1:{port}/mcp", thread, asked


STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Workspace-Id: w-1\r\nConnection: close\r\n\r\n"
    b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'
    b'data: {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}\n\n'
)


def test_response_is_read_from_a_stream_and_the_folder_is_sent_as_bytes() -> None:
    address, thread, asked = endpoint(STREAM)
    answer = McpClient(address, os.fsdecode(b"/a b/\xff?&"), "1").request("tools/list", {})
    thread.join(5)
    assert answer.message["result"] == {"tools": []}
    assert answer.workspace == "w-1"
    assert asked[0].startswith(b"POST /mcp?cwd=/a%20b/%FF%3F%26 HTTP/1.1\r\n")


def test_refusal_by_admission_is_an_error_with_its_text() -> None:
    head = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    address, thread, _ = endpoint(head + b'{"error": "this server serves another user"}')
    answer = McpClient(address, "/", "1").request("tools/list", {})
    thread.join(5)
    assert answer.message["error"] == {"code": 403, "message": "this server serves another user"}


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n<html>"])
def test_endpoint_that_answers_something_else_is_a_fault(answer: bytes) -> None:
    address, thread, _ = endpoint(answer)
    with pytest.raises(ManagerFault):
        McpClient(address, "/", "1").request("tools/list", {})
    thread.join(5)
