"""Saved sessions: what comes back, whoever cut the file, and what other users and a full disk see."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from lm_tools_bridge.agent import saved_sessions
from lm_tools_bridge.agent.messages import AssistantMessage, Call, Message, Result, ToolMessage, UserMessage
from lm_tools_bridge.agent.saved_sessions import Heading, SavedSessions, decoded, encoded, heading_of
from support.clock import ManualClock

HISTORY: Sequence[Message] = (
    UserMessage("what is in\nx?"),
    AssistantMessage("I look", (Call("1", "read", {"path": "ä\u2028😀"}), Call("2", "read", None, "broken"))),
    ToolMessage(Result("1", "read", "text \ud83d \x00", code=47104, is_error=True)),
    ToolMessage(Result("2", "read", "")),
    AssistantMessage("it is empty"),
)


class Desk:
    """Sessions of one folder of projects, with a clock and numbers instead of chance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "sessions"
        self.clock = ManualClock(1_700_000_000)
        self.problems: list[str] = []
        self._numbers = itertools.count()

    def open(self, workspace: str = "/srv/project") -> SavedSessions:
        return SavedSessions(
            self.folder,
            Path(workspace),
            clock=self.clock,
            chance=lambda: f"{next(self._numbers):04}",
            problem=self.problems.append,
        )

    @property
    def files(self) -> list[Path]:
        return sorted(self.folder.iterdir())


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_a_session_comes_back_as_it_was(desk: Desk) -> None:
    await desk.open().keep(HISTORY)
    resumed = desk.open()
    (entry,) = resumed.entries()
    assert entry.title == "what is in x?"
    assert entry.when.startswith("2023-11-1")
    assert tuple(resumed.load(entry.id)) == HISTORY
    assert desk.problems == []


async def test_files_and_their_folder_are_closed_to_others(desk: Desk) -> None:
    await desk.open().keep(HISTORY)
    assert stat.S_IMODE(desk.folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in desk.files] == [0o600]


async def test_the_last_session_comes_first_and_only_those_of_the_folder(desk: Desk) -> None:
    for number, workspace in enumerate(("/a", "/b", "/a")):
        desk.clock.now += 60
        await desk.open(workspace).keep([UserMessage(f"question {number}"), AssistantMessage("")])
    assert [entry.title for entry in desk.open("/a").entries()] == ["question 2", "question 0"]
    assert [entry.title for entry in desk.open("/c").entries()] == []


async def test_a_session_is_one_file_and_goes_on_in_it_after_it_is_resumed(desk: Desk) -> None:
    first = desk.open()
    await first.keep(HISTORY[:1])
    await first.keep(HISTORY)
    resumed = desk.open()
    resumed.load(resumed.entries()[0].id)
    await resumed.keep([*HISTORY, UserMessage("more")])
    assert len(desk.files) == 1
    assert len(resumed.load(resumed.entries()[0].id)) == 6


async def test_a_session_is_saved_under_the_id_that_was_reserved(desk: Desk) -> None:
    first, second = desk.open(), desk.open()
    ids = [first.reserve(), second.reserve()]
    await first.keep(HISTORY)
    await second.keep(HISTORY)
    assert ids == [file.name.removesuffix(".jsonl") for file in desk.files]
    assert desk.open().load(ids[0]) != ()


async def test_two_agents_that_resume_the_same_session_lose_nothing(desk: Desk) -> None:
    await desk.open().keep(HISTORY)
    first, second = desk.open(), desk.open()
    session_id = first.entries()[0].id
    first.load(session_id)
    second.load(session_id)
    await first.keep([*HISTORY, UserMessage("of the first")])
    await second.keep([*HISTORY, UserMessage("of the second")])
    last = [desk.open().load(entry.id)[-1] for entry in desk.open().entries()]
    assert sorted(map(str, last)) == sorted(
        map(str, [UserMessage("of the first"), UserMessage("of the second")])
    )


async def test_a_forgotten_conversation_stays_saved_and_a_new_one_begins(desk: Desk) -> None:
    sessions = desk.open()
    await sessions.keep(HISTORY)
    await sessions.keep(())
    await sessions.keep([UserMessage("new")])
    assert {entry.title for entry in sessions.entries()} == {"what is in x?", "new"}


@pytest.mark.parametrize("part", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
async def test_a_file_that_was_cut_gives_what_is_whole(desk: Desk, part: float) -> None:
    await desk.open().keep(HISTORY)
    (path,) = desk.files
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * part)])
    sessions = desk.open()
    messages = [message for entry in sessions.entries() for message in sessions.load(entry.id)]
    assert messages == list(HISTORY[: len(messages)])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff",
        b"[]\n",
        b"{}\n",
        b'{"format":2}\n',
        b'{"format":1,"workspace":7,"title":"","saved":0}\n',
        b"{" * 99_999,
    ],
)
async def test_files_that_are_none_of_ours_are_not_listed(desk: Desk, content: bytes) -> None:
    desk.folder.mkdir(mode=0o700)
    (desk.folder / "x.jsonl").write_bytes(content)
    os.mkfifo(desk.folder / "pipe.jsonl")
    (desk.folder / "link.jsonl").symlink_to("/etc/passwd")
    assert desk.open().entries() == []
    [problem] = desk.problems
    assert problem.startswith(f"a saved session is damaged and cannot be resumed: {desk.folder / 'x.jsonl'};")
    assert "repair it, or remove the file" in problem


async def test_a_session_that_is_damaged_further_on_is_told_and_used_up_to_there(desk: Desk) -> None:
    await desk.open().keep(HISTORY)
    (path,) = desk.files
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], b"{\n", *lines[4:]]))
    sessions = desk.open()
    assert sessions.load(sessions.entries()[0].id) == list(HISTORY[:2])
    assert desk.problems == [f"the session is damaged from line 4 of {path} on; what is before it is used"]


async def test_damage_in_the_middle_ends_the_history_there() -> None:
    lines = encoded(Heading("/a", "t", 1), HISTORY, 10**6).splitlines(keepends=True)
    lines[3] = b'{"role":"result"}\n'
    assert decoded(b"".join(lines)) == list(HISTORY[:2])


async def test_a_session_that_cannot_be_read_is_told(desk: Desk) -> None:
    await desk.open().keep(HISTORY)
    (path,) = desk.files
    path.chmod(0o644)
    sessions = desk.open()
    session_id = sessions.entries()[0].id
    assert sessions.load(session_id) == ()
    path.unlink()
    assert sessions.load(session_id) == ()
    assert [problem.partition(":")[0] for problem in desk.problems] == [
        "the session cannot be read",
        "the session is no longer there",
    ]


async def test_a_disk_that_takes_nothing_is_told_once_and_ends_nothing(desk: Desk) -> None:
    desk.folder.write_text("a file in the place of the folder")
    sessions = desk.open()
    await sessions.keep(HISTORY)
    await sessions.keep(HISTORY)
    assert len(desk.problems) == 1
    assert desk.problems[0].startswith("this session is not saved: ")


async def test_a_long_session_is_saved_without_its_oldest_messages() -> None:
    messages = [UserMessage(f"{number} " + "x" * 1000) for number in range(100)]
    content = encoded(Heading("/a", "t", 1), messages, 20_000)
    assert len(content) <= 20_000
    assert heading_of(content.splitlines()[0]) == Heading("/a", "t", 1)
    assert decoded(content) == messages[-len(decoded(content)) :]
    assert len(decoded(content)) == 19


async def test_the_oldest_sessions_make_room_for_new_ones(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved_sessions, "MOST", 3)
    for number in range(6):
        desk.clock.now += 60
        await desk.open().keep([UserMessage(f"question {number}")])
        os.utime(desk.files[-1], ns=(0, int(desk.clock.now * 1e9)))
    assert [entry.title for entry in desk.open().entries()] == ["question 5", "question 4", "question 3"]


async def test_a_save_that_was_cancelled_never_replaces_a_newer_one(desk: Desk) -> None:
    sessions = desk.open()
    saves = [
        asyncio.create_task(sessions.keep([UserMessage("q"), AssistantMessage(str(at))])) for at in range(8)
    ]
    await asyncio.sleep(0)
    saves[3].cancel()
    await asyncio.gather(*saves, return_exceptions=True)
    assert sessions.load(sessions.entries()[0].id)[-1] == AssistantMessage("7")


async def test_a_killed_process_leaves_the_older_state(desk: Desk) -> None:
    """A write goes to a file beside and replaces the old one at the end: an unfinished one is not seen."""
    await desk.open().keep(HISTORY)
    (path,) = desk.files
    (desk.folder / f".{path.name}.0123456789ab").write_bytes(b"half")
    sessions = desk.open()
    assert tuple(sessions.load(sessions.entries()[0].id)) == HISTORY
