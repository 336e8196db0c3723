"""What a server is told before it answers, and how far its answers are trusted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.diagnostics.publications import Publications
from lm_tools_bridge.code_intelligence.sync.change_notice import OpenDocumentsNotice
from lm_tools_bridge.code_intelligence.tree.documents import OpenDocuments
from lm_tools_bridge.code_intelligence.tree.relevant_files import Relevance
from lm_tools_bridge.code_intelligence.tree.tree_changes import Changes, Snapshot
from lm_tools_bridge.code_intelligence.tree.tree_watch import TreeWatch
from support.servers.language_servers.recording_peer import ANSWER_S, CLANGD, PYTHON, Followed, name_of

CREATED, CHANGED, DELETED = 1, 2, 3


@asynccontextmanager
async def following(folder: Path, *arguments: Any, **members: Any) -> AsyncIterator[Followed]:
    """A project that is followed from now on."""
    followed = Followed(folder, *arguments, **members)
    await followed.sync.begin()
    await followed.sync.tell_changes()
    try:
        yield followed
    finally:
        await followed.sync.close()


async def test_the_server_is_told_exactly_what_changed(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("")
    async with following(tmp_path) as followed:
        followed.peer.sent.clear()
        followed.write("a.py", "changed")
        (tmp_path / "b.py").unlink()
        (tmp_path / "c.py").rename(tmp_path / "d.py")
        followed.write("pyproject.toml", "")
        followed.write("notes.txt", "")
        await followed.sync.tell_changes()
        assert sorted(followed.peer.events()) == [
            ("a.py", CHANGED),
            ("b.py", DELETED),
            ("c.py", DELETED),
            ("d.py", CREATED),
            ("pyproject.toml", CREATED),
        ]


async def test_a_change_behind_a_link_to_its_folder_is_told_under_both_names(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "lib").symlink_to("shared")
    (tmp_path / "shared/a.py").write_text("1")
    async with following(tmp_path) as followed:
        assert followed.sync.aliases(tmp_path / "shared/a.py") == [tmp_path / "lib/a.py"]
        followed.write("shared/a.py", "new text")
        await followed.sync.tell_changes()
        [(_, told)] = [one for one in followed.peer.sent if one[0].endswith("WatchedFiles")]
        found = sorted(one["uri"].removeprefix(tmp_path.as_uri()) for one in told["changes"])
        assert found == ["/lib/a.py", "/shared/a.py"]


async def test_an_open_file_gets_its_new_text_and_a_deleted_one_is_closed(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        kept, gone = followed.write("kept.py", "1"), followed.write("gone.py", "2")
        await followed.sync.open(kept)
        await followed.sync.open(gone)
        followed.peer.sent.clear()
        followed.write("kept.py", "new")
        gone.unlink()
        await followed.sync.tell_changes()
        told = {
            (method.rpartition("/")[2], name_of(params["textDocument"]["uri"]))
            for method, params in followed.peer.sent
            if "textDocument" in params
        }
        assert told == {("didChange", "kept.py"), ("didClose", "gone.py")}


async def test_an_open_file_outside_the_project_is_followed_too(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "library.py"
    outside.write_text("1")
    async with following(tmp_path) as followed:
        await followed.sync.open(outside)
        outside.write_text("changed")
        await followed.sync.tell_changes()
        assert followed.peer.events() == [("library.py", CHANGED)]
        assert "didChange" in followed.peer.methods()


async def test_a_file_changed_without_a_new_time_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("1")
    async with following(tmp_path) as followed:
        before = path.stat()
        path.write_text("2")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        await followed.sync.tell_changes()
        assert "didOpen" in followed.peer.methods()


async def test_a_change_while_the_server_starts_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    watch = TreeWatch([tmp_path])
    followed = Followed(tmp_path, watch=watch)
    await asyncio.sleep(0)  # its first look begins
    await watch.snapshot()  # one that follows
    (tmp_path / "a.py").unlink()
    await followed.sync.begin()
    await followed.sync.tell_changes()
    assert followed.peer.events() == [("a.py", DELETED)]
    await followed.sync.close()


async def test_callers_at_the_same_time_wait_until_all_is_told(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.write("a.py", "1")
        await asyncio.gather(*(followed.sync.tell_changes() for _ in range(20)))
        assert followed.peer.events().count(("a.py", CREATED)) == 1


async def test_files_that_the_server_asked_for_are_watched(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        followed.peer.registered = [{"watchers": [{"globPattern": "**/*.cfg"}]}]
        followed.write("x.cfg", "")
        for text in ("", "one", "two"):
            await followed.sync.tell_changes()
            followed.write("x.cfg", text)
        await followed.sync.tell_changes()
        assert ("x.cfg", CHANGED) in followed.peer.events()


async def test_a_checkout_of_many_files_is_told_in_bounded_batches(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        for number in range(2000):
            (tmp_path / f"m{number}.py").write_text("")
        await followed.sync.tell_changes()
        assert len(followed.peer.events()) == 2000
        assert followed.peer.methods().count("didChangeWatchedFiles") == 1


async def test_a_disk_that_fails_makes_answers_stale(tmp_path: Path) -> None:
    def fail(folders: object, relevance: Relevance) -> Snapshot:
        raise OSError(5, "Input/output error")

    followed = Followed(tmp_path, watch=TreeWatch([tmp_path], fail))
    await followed.sync.tell_changes()
    found = followed.sync.freshness()
    assert found.state == "stale"
    assert "Input/output error" in found.reason
    await followed.sync.close()


async def test_what_a_kind_always_lacks_is_said(tmp_path: Path) -> None:
    async with following(tmp_path, limits="it sees one file") as followed:
        found = followed.sync.freshness()
        assert (found.state, found.reason) == ("partial", "it sees one file")


async def test_clangd_reads_each_changed_file_before_answers(tmp_path: Path) -> None:
    for name in ("a.cpp", "b.cpp", "c.h"):
        (tmp_path / name).write_text("int x;")
    async with following(tmp_path, CLANGD) as followed:
        followed.publish_each_version()
        followed.write("a.cpp", "int y;")
        followed.write("new.cpp", "int z;")
        (tmp_path / "b.cpp").unlink()
        await followed.sync.tell_changes()
        told = [
            (method.rpartition("/")[2], name_of(params["textDocument"]["uri"]))
            for method, params in followed.peer.sent
        ]
        assert sorted(told) == [
            ("didClose", "b.cpp"),
            ("didOpen", "a.cpp"),
            ("didOpen", "b.cpp"),
            ("didOpen", "new.cpp"),
        ]
        [emptied] = [
            params["textDocument"]["text"]
            for method, params in followed.peer.sent
            if method.endswith("didOpen") and name_of(params["textDocument"]["uri"]) == "b.cpp"
        ]
        assert emptied == ""
        assert followed.sync.freshness().state != "stale"


async def test_a_changed_header_makes_clangd_look_at_its_includers(tmp_path: Path) -> None:
    (tmp_path / "c.h").write_text("int x;")
    async with following(tmp_path, CLANGD) as followed:
        followed.publish_each_version()
        followed.write("c.h", "int y;")
        await followed.sync.tell_changes()
        assert "didSave" in followed.peer.methods()


async def test_after_a_header_changed_clangd_must_be_idle(tmp_path: Path) -> None:
    (tmp_path / "c.h").write_text("int x;")
    followed = Followed(tmp_path, CLANGD)
    publications = Publications()
    documents = OpenDocuments(followed.peer)
    notice = OpenDocumentsNotice(followed.peer, documents, publications, quiet_s=0.04)
    followed.publish_each_version(to=publications)
    await documents.open(tmp_path / "c.h")
    status = {"uri": (tmp_path / "c.h").as_uri(), "state": "parsing includes"}
    publications.status_reported(status)
    await notice.tell(Changes(changed=(str(tmp_path / "c.h"),)))
    await notice.caught_up(0.3)
    assert notice.lagging() == 1
    publications.status_reported({**status, "state": "idle"})
    await notice.caught_up(ANSWER_S)
    assert notice.lagging() == 0
    await followed.sync.close()


async def test_answers_are_stale_until_clangd_has_read_what_changed(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int x;")
    followed = Followed(tmp_path, CLANGD, take_in_s=0.0)
    await followed.sync.tell_changes()
    followed.write("a.cpp", "int y;")
    await followed.sync.tell_changes()
    found = followed.sync.freshness()
    assert found.state == "stale"
    assert "1 changes on disk" in found.reason
    async with asyncio.timeout(ANSWER_S):
        while not followed.peer.sent:
            await asyncio.sleep(0)
    document = followed.peer.sent[-1][1]["textDocument"]
    followed.publish(document["uri"], version=document["version"])
    await followed.sync.diagnostics([], ANSWER_S)
    assert followed.sync.freshness().state != "stale"
    await followed.sync.close()


async def test_clangd_reads_a_changed_compilation_database_again(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int x;")
    followed = Followed(tmp_path, CLANGD)
    publications = Publications()
    documents = OpenDocuments(followed.peer)
    notice = OpenDocumentsNotice(followed.peer, documents, publications, reread_s=0.05)
    followed.publish_each_version(to=publications)
    await documents.open(tmp_path / "a.cpp")
    await notice.tell(Changes(changed=(str(tmp_path / "compile_commands.json"),)))
    assert notice.lagging() == 1
    await notice.caught_up(ANSWER_S)
    assert notice.lagging() == 0
    assert followed.peer.methods() == ["didOpen", "didChange"]
    await followed.sync.close()


async def test_ready_opens_a_file_and_waits_for_the_sign(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    async with following(tmp_path, ready="quiescent") as followed:
        steps: list[str] = []

        async def progress(done: float, total: float | None, text: str) -> None:
            steps.append(text)
            followed.sync.take_notification("experimental/serverStatus", {"health": "ok", "quiescent": True})

        assert (await followed.sync.ready(ANSWER_S, progress)).state == "fresh"
        assert followed.peer.methods() == ["didOpen"]
        assert len(steps) == 1
        assert (await followed.sync.ready(0)).state == "fresh"


async def test_ready_gives_up_in_time_and_says_that_it_is_indexing(tmp_path: Path) -> None:
    async with following(tmp_path, ready="quiescent") as followed:
        assert (await followed.sync.ready(0.05)).state == "indexing"


async def test_nothing_runs_on_after_close(tmp_path: Path) -> None:
    (tmp_path / "a.cpp").write_text("int x;")
    before = asyncio.all_tasks()
    followed = Followed(tmp_path, CLANGD, take_in_s=0.0)
    await followed.sync.tell_changes()
    followed.write("a.cpp", "int y;")
    await followed.sync.tell_changes()
    await followed.sync.close()
    assert asyncio.all_tasks() == before


async def test_what_was_computed_from_a_file_is_kept_until_anything_changes(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        path = followed.write("a.py", "1")
        followed.write("b.py", "1")
        await followed.sync.tell_changes()
        await followed.sync.open(path)
        for change in ("a.py", "b.py"):
            followed.sync.memo(path)["outline"] = 1
            await followed.sync.tell_changes()
            await followed.sync.open(path)
            assert followed.sync.memo(path)["outline"] == 1
            followed.write(change, "changed")
            await followed.sync.tell_changes()
            await followed.sync.open(path)
            assert "outline" not in followed.sync.memo(path)


async def test_nothing_is_kept_of_files_that_are_closed_or_not_yet_read(tmp_path: Path) -> None:
    async with following(tmp_path, CLANGD) as followed:
        path = followed.write("a.cpp", "")
        followed.sync.memo(path)["outline"] = 1
        assert followed.sync.memo(path) == {}
        await followed.sync.open(path)
        assert followed.sync.freshness().state == "indexing"
        followed.sync.memo(path)["outline"] = 1
        assert followed.sync.memo(path) == {}


async def test_a_change_during_a_look_is_told_before_the_next_answer(tmp_path: Path) -> None:
    async with following(tmp_path) as followed:
        for text in ("1", "2", "3"):
            followed.write("a.py", text)
            telling = asyncio.create_task(followed.sync.tell_changes())
            await asyncio.sleep(0)
            followed.write("b.py", text)
            await followed.sync.tell_changes()
            assert {name for name, _ in followed.peer.events()} == {"a.py", "b.py"}
            followed.peer.sent.clear()
            await telling


async def test_an_unchanged_project_is_answered_about_without_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with following(tmp_path) as followed:
        followed.write("a.py", "1")
        await followed.sync.tell_changes()
        with monkeypatch.context() as no_look:
            no_look.setattr(TreeWatch, "snapshot", None)
            await followed.sync.tell_changes()
        followed.write("a.py", "2")
        await followed.sync.tell_changes()
        assert followed.peer.events()[-1] == ("a.py", CHANGED)


async def test_of_a_server_that_reads_late_all_changed_files_are_opened(tmp_path: Path) -> None:
    followed = Followed(tmp_path, PYTHON, ready="first-answer", opens_changed=True)
    path = followed.write("a.py", "old")
    await followed.sync.tell_changes()
    path.write_text("new text")
    followed.write("b.py", "created")
    await followed.sync.tell_changes()
    opened = [
        params["textDocument"]["text"] for method, params in followed.peer.sent if method.endswith("didOpen")
    ]
    assert sorted(opened) == ["created", "new text"]
    assert sorted(followed.peer.events()) == [("a.py", 2), ("b.py", 1)]
    await followed.sync.close()


async def test_what_the_setup_of_a_project_lacks_is_told_with_each_answer(tmp_path: Path) -> None:
    gap = "no environment: imports of libraries are not checked (click)"
    kind = replace(PYTHON, doubt=gap, unknown_modules=frozenset({"click"}))
    async with following(tmp_path, kind) as followed:
        state = followed.sync.freshness()
        assert (state.state, state.reason) == ("partial", gap)


@pytest.mark.parametrize("content", [b"\xef\xbb\xbfx = 1\n", b"# coding: latin-1\n# \xe9\n", b"# \xff\n"])
async def test_a_file_that_a_server_would_misread_is_open_in_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "plain.py").write_text("# \u00e9\n")
    unusual = tmp_path / "unusual.py"
    unusual.write_bytes(content)
    async with following(tmp_path, replace(PYTHON, misreads_encodings=True)) as followed:
        assert opened(followed) == ["unusual.py"]
        unusual.write_text("plain now, and closed when others need its place")
        (tmp_path / "plain.py").write_bytes(content + content)
        await followed.sync.tell_changes()
        assert opened(followed) == ["unusual.py", "plain.py"]
    async with following(tmp_path) as followed:
        assert opened(followed) == []


async def test_more_of_these_than_can_be_open_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_tools_bridge.code_intelligence.sync.unusual_texts.MAX_KEPT", 1)
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_bytes(b"# \xff\n")
    async with following(tmp_path, replace(PYTHON, misreads_encodings=True)) as followed:
        assert len(opened(followed)) == 1
        state = followed.sync.freshness()
        assert (state.state, state.reason) == ("partial", "it misreads 2 files that are not in plain UTF-8")


def opened(followed: Followed) -> list[str]:
    return [
        name_of(params["textDocument"]["uri"])
        for method, params in followed.peer.sent
        if method == "textDocument/didOpen"
    ]
