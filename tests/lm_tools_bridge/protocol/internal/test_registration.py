"""Tests of the messages of registered servers: what is accepted, and which invalid member is named."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.protocol.internal.registration import (
    Allocate,
    Bye,
    Heartbeat,
    InvalidPayload,
    Resolve,
    Shutdown,
)

OWN_PORT = 30000
HEARTBEAT: dict[str, Any] = {
    "sessionId": "s1",
    "pid": 4711,
    "workspaceFolders": ["/ws/a", "/ws/b"],
    "workspaceFile": "/ws/x.code-workspace",
    "host": "127.0.0.1",
    "port": 21100,
    "lastSeen": "not looked at",
    "nonce": "n1",
    "kind": "workspace-server",
}
ABSENT = object()


def heartbeat(*, windows: bool = False, **members: Any) -> Heartbeat | InvalidPayload:
    payload = {key: value for key, value in (HEARTBEAT | members).items() if value is not ABSENT}
    return Heartbeat.parse(
        payload, own_port=OWN_PORT, owns_process=lambda pid: pid == HEARTBEAT["pid"], windows=windows
    )


def invalid_member(message: object) -> str:
    assert isinstance(message, InvalidPayload), message
    assert message.reason == "invalid_payload"
    assert message.problem
    return message.field


def test_heartbeat_is_decoded() -> None:
    assert heartbeat() == Heartbeat(
        session_id="s1",
        pid=4711,
        workspace_folders=("/ws/a", "/ws/b"),
        workspace_file="/ws/x.code-workspace",
        host="127.0.0.1",
        port=21100,
        nonce="n1",
        kind="workspace-server",
    )


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("port", "48000"), ("port", True), ("port", 0), ("port", 65536), ("port", 1.0), ("port", None),
        ("port", ABSENT), ("port", OWN_PORT),
        ("host", "10.0.0.9"), ("host", "127.0.0.2"), ("host", "LOCALHOST"), ("host", ["::1"]),
        ("host", ABSENT),
        ("workspaceFolders", []), ("workspaceFolders", ABSENT), ("workspaceFolders", "/ws"),
        ("workspaceFolders", ["/ws", "rel"]), ("workspaceFolders", ["/ws\0"]), ("workspaceFolders", [7]),
        ("workspaceFolders", ["/" + "x" * 4096]), ("workspaceFolders", ["/ws/\ud800"]),
        ("workspaceFolders", [r"C:\ws"]), ("workspaceFolders", [f"/ws/{n}" for n in range(65)]),
        ("workspaceFile", "x.code-workspace"), ("workspaceFile", 1),
        ("pid", "4711"), ("pid", True), ("pid", 0), ("pid", -1), ("pid", 2**31), ("pid", 4712),
        ("sessionId", " \t"), ("sessionId", "x" * 129), ("sessionId", 1), ("sessionId", ABSENT),
        ("nonce", 5), ("nonce", ""), ("nonce", "n" * 257), ("kind", "window"), ("kind", ["editor"]),
    ],
)  # fmt: skip
def test_refused_heartbeat_names_the_invalid_member(member: str, value: Any) -> None:
    assert invalid_member(heartbeat(**{member: value})) == member


@pytest.mark.parametrize(
    "members",
    [
        {"workspaceFolders": [f"/ws/{n}" for n in range(64)]},
        {"host": "::1"},
        {"host": "localhost"},
        {"port": 65535},
        {"workspaceFile": None},
        {"workspaceFile": ABSENT},
        {"sessionId": "x" * 128},
        {"kind": ABSENT},
        {"somethingNew": {"deep": [1]}},
    ],
)
def test_heartbeat_at_the_limits_is_accepted(members: dict[str, Any]) -> None:
    message = heartbeat(**members)
    assert isinstance(message, Heartbeat)
    assert message.kind == "workspace-server"


@pytest.mark.parametrize("members", [{"nonce": ABSENT}, {"nonce": None}, {"kind": "editor"}])
def test_heartbeat_without_nonce_or_of_kind_editor_is_an_editor(members: dict[str, Any]) -> None:
    message = heartbeat(**members)
    assert isinstance(message, Heartbeat)
    assert message.kind == "editor"


@pytest.mark.parametrize("folder", [r"C:\ws", "c:/ws", r"\\host\share", r"\\?\C:\ws"])
def test_windows_folders_are_absolute_on_windows_only(folder: str) -> None:
    windows = heartbeat(windows=True, workspaceFolders=[folder], workspaceFile=ABSENT)
    assert isinstance(windows, Heartbeat)
    assert invalid_member(heartbeat(workspaceFolders=[folder])) == "workspaceFolders"


def test_posix_folder_is_not_absolute_on_windows() -> None:
    assert invalid_member(heartbeat(windows=True, workspaceFile=ABSENT)) == "workspaceFolders"


@pytest.mark.parametrize(
    ("members", "start"),
    [({}, 21100), ({"minPort": 21107}, 21107), ({"minPort": 5}, 21100)],
)
def test_allocation_starts_at_the_higher_of_both_ports(members: dict[str, int], start: int) -> None:
    message = Allocate.parse({"sessionId": "s1", "preferredPort": 21100, **members})
    assert isinstance(message, Allocate)
    assert message.start == start


@pytest.mark.parametrize("member", ["preferredPort", "minPort"])
@pytest.mark.parametrize("value", ["21100", True, False, 0, -1, 1.5, 21100.0, 65536, None, []])
def test_only_an_integer_in_range_is_a_port(member: str, value: object) -> None:
    payload = {"sessionId": "s1", "preferredPort": 21100, "minPort": 1, member: value}
    assert invalid_member(Allocate.parse(payload)) == member


@pytest.mark.parametrize("value", ["", " ", "x" * 129, 1, None, True])
def test_only_a_short_text_is_a_session_id(value: object) -> None:
    assert invalid_member(Allocate.parse({"sessionId": value, "preferredPort": 1})) == "sessionId"


def test_allocation_needs_session_and_port() -> None:
    assert invalid_member(Allocate.parse({"preferredPort": 1})) == "sessionId"
    assert invalid_member(Allocate.parse({"sessionId": "s"})) == "preferredPort"


def test_bye_may_omit_the_sender() -> None:
    assert Bye.parse({}) == Bye(None)
    assert Bye.parse({"sessionId": None}) == Bye(None)
    assert Bye.parse({"sessionId": "s1"}) == Bye("s1")
    assert invalid_member(Bye.parse({"sessionId": 5})) == "sessionId"


@pytest.mark.parametrize(
    ("payload", "reason"),
    [({}, "missing_cwd"), ({"cwd": None}, "missing_cwd"), ({"cwd": " "}, "missing_cwd"),
     ({"cwd": 5}, "invalid_cwd"), ({"cwd": ["/ws"]}, "invalid_cwd")],
)  # fmt: skip
def test_resolve_distinguishes_missing_from_invalid_cwd(payload: object, reason: str) -> None:
    message = Resolve.parse(payload)
    assert isinstance(message, InvalidPayload)
    assert (message.field, message.reason) == ("cwd", reason)


def test_resolve_keeps_the_cwd_unchanged() -> None:
    assert Resolve.parse({"cwd": " /ws/mono "}) == Resolve(" /ws/mono ")


def test_shutdown_may_have_no_members() -> None:
    assert Shutdown.parse({}) == Shutdown(None, None, keep_servers=False)
    full = {"reason": "upgrade", "expectedVersion": "1.2.3", "keepServers": True}
    assert Shutdown.parse(full) == Shutdown("upgrade", "1.2.3", keep_servers=True)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("keepServers", 1),
        ("keepServers", "true"),
        ("keepServers", None),
        ("expectedVersion", 1),
        ("reason", 1),
    ],
)
def test_shutdown_accepts_exact_types_only(member: str, value: object) -> None:
    assert invalid_member(Shutdown.parse({member: value})) == member


@pytest.mark.parametrize("payload", [None, [], "x", 1, True])
@pytest.mark.parametrize("kind", [Allocate, Bye, Resolve, Shutdown])
def test_only_an_object_is_a_message(kind: type[Bye], payload: object) -> None:
    assert invalid_member(kind.parse(payload)) == ""
