"""Windows on ports and discovery sockets of this machine."""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from lm_tools_bridge.editors.finder import PREFIX_VARIABLE, WindowFinder, identity_of, sockets_for
from lm_tools_bridge.editors.window import Window
from support.servers.scripted.editor_window import advertised, free_range, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "proj"
    folder.mkdir()
    return folder


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    """Short enough that sockets fit, and nobody else's."""
    yield {PREFIX_VARIABLE: f"t{time.monotonic_ns()}."}


async def found(finder: WindowFinder) -> list[Window]:
    return list(await asyncio.to_thread(finder.find))


async def test_a_window_is_found_by_its_health(root: Path) -> None:
    first = free_range()
    async with opened(first, root) as window:
        assert [one.port for one in await found(WindowFinder(root, {}, first))] == [window.port]


async def test_a_window_that_opened_the_folder_through_a_link_is_found(root: Path, tmp_path: Path) -> None:
    first, link = free_range(), tmp_path / "link"
    link.symlink_to(root)
    async with opened(first, link):
        assert [one.folder for one in await found(WindowFinder(root, {}, first))] == [root]


async def test_windows_of_other_folders_are_not_found(root: Path) -> None:
    first = free_range()
    async with opened(first, root.parent / "other"):
        assert await found(WindowFinder(root, {}, first)) == []


async def test_several_windows_of_one_folder_are_all_found(root: Path) -> None:
    first = free_range()
    async with opened(first, root) as one, opened(first, root) as other:
        ports = [window.port for window in await found(WindowFinder(root, {}, first))]
        assert ports == sorted([one.port, other.port])


async def test_a_window_is_found_by_its_discovery_socket(root: Path, environ: dict[str, str]) -> None:
    async with opened(free_range(), root) as window, advertised(root, environ, window.port):
        nowhere = 65_535
        assert [one.port for one in await found(WindowFinder(root, environ, nowhere))] == [window.port]


async def test_a_window_of_a_workspace_file_is_found_likewise(root: Path, environ: dict[str, str]) -> None:
    file = root / "all.code-workspace"
    file.write_text("{}")
    async with opened(free_range(), root) as one, advertised(file, environ, one.port, kind="workspace-file"):
        assert [each.port for each in await found(WindowFinder(root, environ, 65_535))] == [one.port]


async def test_an_advertised_port_is_believed_only_with_its_health(
    root: Path, environ: dict[str, str]
) -> None:
    other = root.parent / "other"
    async with opened(free_range(), other) as window, advertised(root, environ, window.port):
        assert await found(WindowFinder(root, environ, 65_535)) == []


async def test_a_socket_that_a_killed_window_left_is_nothing(root: Path, environ: dict[str, str]) -> None:
    async with advertised(root, environ, 1) as place:
        pass
    left = socket.socket(socket.AF_UNIX)
    with closing(left):
        place.unlink(missing_ok=True)
        left.bind(str(place))
    assert await found(WindowFinder(root, environ, 65_535)) == []
    place.unlink()


@asynccontextmanager
async def listener(first: int, answer: bytes, *, drip: bool = False) -> AsyncIterator[int]:
    """Something else on one of the ports."""

    writers: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        for part in [answer[n : n + 1] for n in range(len(answer))] if drip else [answer]:
            writer.write(part)
            await asyncio.sleep(0.1 if drip else 0)

    server = await asyncio.start_server(serve, "127.0.0.1", first)
    try:
        yield first
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


async def test_something_that_never_answers_hides_no_window(root: Path) -> None:
    first = free_range()
    async with listener(first, b""), opened(first + 1, root) as window:
        finder = WindowFinder(root, {}, first, answer_s=0.3)
        assert [one.port for one in await found(finder)] == [window.port]


async def test_other_programs_are_asked_more_and_more_seldom(root: Path) -> None:
    first, now, asked = free_range(), [0.0], []
    async with opened(first, root) as window:
        finder = WindowFinder(root, {}, first, clock=lambda: now[0])
        window.serves_health = False
        for now[0] in range(0, 100, 5):
            before = window.asked
            assert await found(finder) == []
            asked += [now[0]] if window.asked > before else []
    assert asked == [0, 5, 15, 35, 65, 95]


async def test_a_window_that_opens_again_on_its_port_is_found_at_once(root: Path) -> None:
    first = free_range()
    finder = WindowFinder(root, {}, first, clock=lambda: 0.0)
    async with opened(first, root) as window:
        assert await found(finder)
    assert await asyncio.to_thread(finder.ask, window.port) is None
    async with opened(window.port, root) as again:
        assert [one.port for one in await found(finder)] == [again.port] == [window.port]


async def test_a_window_on_the_port_of_another_program_is_found_at_once(root: Path) -> None:
    first = free_range()
    finder = WindowFinder(root, {}, first, clock=lambda: 0.0)
    async with listener(first, b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"):
        assert await found(finder) == []
    async with opened(first, root) as window:
        assert [one.port for one in await found(finder)] == [window.port] == [first]


async def test_a_window_that_was_busy_when_it_opened_is_found_five_seconds_later(root: Path) -> None:
    first, now = free_range(), [0.0]
    finder = WindowFinder(root, {}, first, clock=lambda: now[0])
    async with opened(first, root) as window:
        window.serves_health = False
        assert await found(finder) == []
        window.serves_health, now[0] = True, 5.0
        assert len(await found(finder)) == 1


async def test_an_answer_in_drops_costs_no_more(root: Path) -> None:
    first = free_range()
    began = time.monotonic()
    async with listener(first, b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + b"{" * 999, drip=True):
        assert await found(WindowFinder(root, {}, first)) == []
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "answer",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{no}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n" + b"x" * 600_000,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500,
    ],
)
async def test_other_answers_are_no_windows(root: Path, answer: bytes) -> None:
    first = free_range()
    async with listener(first, answer):
        assert await found(WindowFinder(root, {}, first)) == []


async def test_nothing_is_sent_to_a_program_of_another_user(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = free_range()
    async with opened(first, root) as window:
        monkeypatch.setattr(os, "getuid", lambda: 4_000_000)
        assert await found(WindowFinder(root, {}, first)) == []
        assert await asyncio.to_thread(WindowFinder(root, {}, first).ask, window.port) is None
    assert window.asked == 0


def test_an_identity_is_the_folder_in_lower_case_with_backslashes() -> None:
    assert identity_of("folder", Path("/home/Ada/Proj")) == "folder|\\home\\ada\\proj"


def test_the_name_is_the_digest_of_the_identity(tmp_path: Path) -> None:
    root = tmp_path / "Proj"
    first = next(iter(sockets_for(root, {"TMPDIR": "/t"})))
    digest = hashlib.sha256(identity_of("folder", root).encode()).hexdigest()
    assert first.path == Path(f"/t/lm-tools-bridge.discovery.v1.{digest}.sock")


def test_a_default_name_fits_a_socket_address_only_in_the_usual_folder(tmp_path: Path) -> None:
    first = next(iter(sockets_for(tmp_path / "none", {})))
    assert len(str(first.path)) == 103 and first.path.parent == Path("/tmp")


def test_another_prefix_comes_from_the_environment(tmp_path: Path) -> None:
    first = next(iter(sockets_for(tmp_path / "none", {PREFIX_VARIABLE: "my pipes/"})))
    assert first.path.name.startswith("my_pipes_")


def test_the_search_goes_up_workspace_files_before_their_folder(tmp_path: Path) -> None:
    (tmp_path / "b.code-workspace").write_text("{}")
    (tmp_path / "a.code-workspace").write_text("{}")
    root = tmp_path / "proj"
    root.mkdir()
    found = [one.identity for one in sockets_for(root, {})][:4]
    files = [tmp_path / "a.code-workspace", tmp_path / "b.code-workspace"]
    assert found == [
        identity_of("folder", root),
        *(identity_of("workspace-file", file) for file in files),
        identity_of("folder", tmp_path),
    ]
