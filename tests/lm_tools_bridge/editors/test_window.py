"""What is believed of windows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.editors import window as windows
from lm_tools_bridge.editors.window import Window

ROOT = Path("/code/mono/proj")


def health(*folders: Any, **members: Any) -> bytes:
    listed = [{"name": "x", "path": one} for one in folders]
    return json.dumps({"ok": True, "port": 48123, "workspaceFolders": listed, **members}).encode()


def read(body: bytes, port: int = 48123, root: Path = ROOT) -> Window | None:
    return windows.of_health(body, port, root, Path)


def test_a_window_with_the_folder_is_one_of_the_project() -> None:
    found = read(health("/other", str(ROOT), toolNames=["lm_x"]))
    assert found == Window(48123, ROOT, 0) and found.tools == ("lm_x",)


def test_a_window_with_a_folder_above_is_one_too() -> None:
    found = read(health("/code/mono"))
    assert found is not None and (found.folder, found.above) == (Path("/code/mono"), 1)


def test_the_nearest_folder_of_a_window_counts() -> None:
    found = read(health("/code", "/code/mono"))
    assert found is not None and found.folder == Path("/code/mono")


@pytest.mark.parametrize("folder", ["/", "/code/mono/proj/src", "/code/mono/pro", "/elsewhere", ""])
def test_other_folders_are_none_of_the_project(folder: str) -> None:
    assert read(health(folder)) is None


def test_a_window_of_the_home_folder_is_not_one_of_every_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/code/mono")
    assert read(health("/code/mono")) is None
    assert read(health("/code/mono"), root=Path("/code/mono")) is not None


def test_a_window_that_names_another_port_is_not_believed() -> None:
    assert read(health(str(ROOT)), port=48124) is None


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", b"[]", b"\xff", b"[" * 100_000, b'{"ok": true}', health(str(ROOT), ok=False), health(7),
     health(str(ROOT), port="48123"), health("/" * 5000)],
)  # fmt: skip
def test_what_is_no_health_answer_is_no_window(body: bytes) -> None:
    assert read(body) is None


def test_the_nearest_window_comes_first_then_the_lowest_port() -> None:
    found = [Window(3, ROOT), Window(1, ROOT.parent, 1), Window(2, ROOT), Window(2, ROOT)]
    assert [one.port for one in windows.in_order(found)] == [2, 3, 1]


def said(**members: Any) -> bytes:
    known = {"ok": True, "protocolVersion": 1, "targetIdentity": "folder|x", "host": "127.0.0.1", "port": 5}
    return json.dumps(known | members).encode()


def test_an_advertisement_names_the_port() -> None:
    assert windows.of_advertisement(said(), "folder|x") == 5


@pytest.mark.parametrize(
    "line",
    [said(ok=False, code="TARGET_UNAVAILABLE"), said(protocolVersion=2), said(targetIdentity="folder|y"),
     said(host="10.0.0.1"), said(port=0), said(port=70000), b"", b"no json"],
)  # fmt: skip
def test_an_advertisement_of_anything_else_is_none(line: bytes) -> None:
    assert windows.of_advertisement(line, "folder|x") is None
