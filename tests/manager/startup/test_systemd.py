"""Tests of manager.startup.systemd; the hand-over of sockets to a real child is in tests/test_systemd_units.py."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from manager.startup.systemd import http_socket, notify, watchdog_interval

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="systemd is Linux")


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "http"},
        {"LISTEN_FDS": "1"},
        {"LISTEN_PID": str(os.getpid())},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "-1"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "x"},
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "0"},
    ],
)
def test_sockets_for_no_or_another_process_are_not_taken(environ: dict[str, str]) -> None:
    assert http_socket(environ) is None
    assert environ == {}


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_state_reaches_the_notify_socket(tmp_path: Path, abstract: bool) -> None:
    if abstract and sys.platform != "linux":
        pytest.skip("abstract sockets are Linux")
    name = f"@lmtb-test-{os.getpid()}" if abstract else str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name.replace("@", "\0", 1) if abstract else name)
        receiver.settimeout(5)
        assert notify({"NOTIFY_SOCKET": name}, READY=1, STATUS="two\nMAINPID=1")
        assert receiver.recv(4096) == b"READY=1\nSTATUS=two MAINPID=1"


@pytest.mark.parametrize("address", [None, "", "relative", "/nowhere/notify", "@nobody-listens-here"])
def test_notify_without_a_socket_is_ignored(address: str | None) -> None:
    assert not notify({} if address is None else {"NOTIFY_SOCKET": address}, READY=1)


def test_full_notify_socket_does_not_block(tmp_path: Path) -> None:
    name = str(tmp_path / "n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(name)
        assert any(not notify({"NOTIFY_SOCKET": name}, WATCHDOG=1) for _ in range(5000))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_is_pinged_at_half_its_time(environ: dict[str, str], expected: float | None) -> None:
    assert watchdog_interval(environ) == expected
