"""Files that are open in a server: their versions, their text, and how many there are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lm_tools_bridge.code_intelligence.tree.documents import OpenDocuments
from lm_tools_bridge.machine import regular_file
from support.servers.language_servers.recording_peer import CLANGD, PYTHON, RecordingPeer


@pytest.fixture
def peer(tmp_path: Path) -> RecordingPeer:
    return RecordingPeer(PYTHON, tmp_path)


async def test_a_file_is_opened_once_and_changed_when_it_differs(peer: RecordingPeer, tmp_path: Path) -> None:
    documents = OpenDocuments(peer)
    path = tmp_path / "a.py"
    path.write_text("x = 1\r\ny = 2\n")
    first = await documents.open(path)
    assert (await documents.open(path)) is first
    assert first.lines[:2] == ["x = 1", "y = 2"]
    path.write_text("x = 3\n")
    second = await documents.open(path)
    assert second.version > first.version
    [(_, opened), (_, changed)] = peer.sent
    assert opened["textDocument"]["languageId"] == "python"
    assert changed["contentChanges"] == [{"text": "x = 3\n"}]
    assert "wantDiagnostics" not in changed


async def test_a_touched_file_is_no_new_version(peer: RecordingPeer, tmp_path: Path) -> None:
    documents = OpenDocuments(peer)
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    await documents.open(path)
    os.utime(path, ns=(1, 1))
    await documents.open(path)
    assert peer.methods() == ["didOpen"]


async def test_clangd_publishes_for_each_version(tmp_path: Path) -> None:
    peer = RecordingPeer(CLANGD, tmp_path)
    documents = OpenDocuments(peer)
    path = tmp_path / "a.cpp"
    path.write_text("int x;")
    await documents.open(path)
    await documents.open(path, is_again=True)
    path.write_text("int y;")
    await documents.open(path)
    asked = [(params["wantDiagnostics"], params["forceRebuild"]) for _, params in peer.sent[1:]]
    assert asked == [(True, True), (True, False)]


async def test_the_least_recently_used_file_is_closed(peer: RecordingPeer, tmp_path: Path) -> None:
    documents = OpenDocuments(peer, limit=2)
    paths = [tmp_path / f"{number}.py" for number in range(3)]
    for path in paths:
        path.write_text("")
    for index in (0, 1, 0, 2):
        await documents.open(paths[index])
    assert documents.paths() == [paths[0], paths[2]]
    assert peer.methods() == ["didOpen", "didOpen", "didOpen", "didClose"]


async def test_large_files_leave_room_for_few(peer: RecordingPeer, tmp_path: Path) -> None:
    documents = OpenDocuments(peer, max_text=1000)
    for number in range(5):
        (tmp_path / f"{number}.py").write_text("#" * 400)
        await documents.open(tmp_path / f"{number}.py")
    assert len(documents) == 2


async def test_a_version_is_never_used_twice(peer: RecordingPeer, tmp_path: Path) -> None:
    documents = OpenDocuments(peer)
    path = tmp_path / "a.py"
    path.write_text("x")
    first = await documents.open(path)
    await documents.close(path)
    assert (await documents.open(path)).version > first.version


def pipe(path: Path) -> None:
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(regular_file.MAX_SOURCE + 1)


@pytest.mark.parametrize("make", [pipe, huge, Path.mkdir])
async def test_what_is_no_text_file_is_refused_at_once(
    peer: RecordingPeer, tmp_path: Path, make: object
) -> None:
    assert callable(make)
    make(tmp_path / "a.py")
    with pytest.raises(OSError, match=r"."):
        await OpenDocuments(peer).open(tmp_path / "a.py")
    assert peer.sent == []
