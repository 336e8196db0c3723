"""Tests the state file: saved rows are read again, and an unusable file never stops the manager."""

from __future__ import annotations

import itertools
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from manager import state_file as store_module
from manager.state_file import (
    _UPGRADES,
    SCHEMA_VERSION,
    InstanceRow,
    Loaded,
    SessionRow,
    Store,
    WorkspaceRow,
)

WORKSPACE = WorkspaceRow("w-1", "/srv/proj")
INSTANCE = InstanceRow("w-1", "i-1", 4711, "boot:123", "nonce", "secret", 21000)
SESSION = SessionRow("s-1", "2025-11-25", "codex", "1.0", b'{"roots":{}}', "w-1", "/srv/proj/x", 1e9, True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
async def make(path: Path) -> AsyncIterator[Callable[[], Store]]:
    """Makes stores on the file, one after the other; all are closed at the end."""
    made: list[Store] = []
    names = itertools.count(1)

    def one() -> Store:
        made.append(Store(path, set_aside_name=lambda: f"{next(names):03}"))
        return made[-1]

    yield one
    for store in made:
        await store._run(store._close)  # some were closed by the test
        store._thread.shutdown()


Make = Callable[[], Store]


async def reopened(make: Make, store: Store) -> Loaded:
    await store._run(store._close)
    return await make().open()


async def fill(store: Store) -> None:
    await store.save_workspace(WORKSPACE)
    await store.save_instance(INSTANCE)
    await store.save_sessions([SESSION])


FULL = Loaded((WORKSPACE,), (INSTANCE,), (SESSION,))


async def test_what_was_saved_is_there_after_a_restart(make: Make) -> None:
    store = make()
    assert await store.open() == Loaded()
    await fill(store)
    assert await reopened(make, store) == FULL
    assert store.degraded is None


async def test_what_was_saved_survives_a_kill(make: Make, path: Path, tmp_path: Path) -> None:
    """Nothing needs an orderly close."""
    store = make()
    await store.open()
    await fill(store)
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        copy.with_name(copy.name + suffix).write_bytes(path.with_name(path.name + suffix).read_bytes())
    other = Store(copy, set_aside_name=str)
    assert await other.open() == FULL
    await other.close()


async def test_the_file_is_private(make: Make, path: Path) -> None:
    await make().open()
    assert path.stat().st_mode & 0o777 == 0o600


async def test_rows_are_replaced_by_their_key_and_dropped(make: Make) -> None:
    store = make()
    await store.open()
    await fill(store)
    second = InstanceRow("w-1", "i-2", 1, "x", "n", "s", 1)
    await store.save_instance(second)
    await store.drop_instance("w-1", "i-1")  # a late end of the former instance harms not its successor
    await store.save_sessions([])
    await store.drop_sessions(["s-1", "never known"])
    await store.drop_sessions([])
    assert await reopened(make, store) == Loaded((WORKSPACE,), (second,), ())


async def test_an_ended_instance_leaves_the_ledger(make: Make) -> None:
    store = make()
    await store.open()
    await fill(store)
    await store.drop_instance("w-1", "i-1")
    assert (await reopened(make, store)).instances == ()


async def test_folders_whose_names_are_no_utf8_survive(make: Make) -> None:
    folder = os.fsdecode(b"/srv/\xff\xfe dir\n")
    store = make()
    await store.open()
    await store.save_workspace(WorkspaceRow("w", folder))
    await store.save_sessions([SessionRow("s", "r", None, None, b"\xff", None, folder, 0.0, False)])
    found = await reopened(make, store)
    assert found.workspaces[0].root == folder
    assert (found.sessions[0].cwd, found.sessions[0].capabilities) == (folder, b"\xff")


async def test_writes_happen_in_the_order_they_were_asked_for(make: Make) -> None:
    store = make()
    await store.open()
    writes = [store.save_instance(InstanceRow("w", f"i-{n}", n, "", "", "", n)) for n in range(50)]
    for write in writes:
        await write
    assert [row.instance for row in (await reopened(make, store)).instances] == ["i-49"]


async def test_a_text_that_cannot_be_saved_is_no_fault(make: Make) -> None:
    store = make()
    await store.open()
    await store.save_sessions([SessionRow("s", "r", "\ud800", None, b"", None, None, 0.0, True)])
    assert store.degraded is not None
    await store.retry()
    assert store.degraded is None


SCHEMA_1 = """
CREATE TABLE workspaces(id TEXT PRIMARY KEY, root BLOB NOT NULL UNIQUE) STRICT;
CREATE TABLE instances(
    workspace TEXT PRIMARY KEY, instance TEXT NOT NULL, pid INTEGER NOT NULL, started TEXT NOT NULL,
    nonce TEXT NOT NULL, secret TEXT NOT NULL, port INTEGER NOT NULL) STRICT;
CREATE TABLE sessions(
    id TEXT PRIMARY KEY, revision TEXT NOT NULL, client_name TEXT, client_version TEXT,
    capabilities BLOB NOT NULL, workspace TEXT, cwd BLOB, seen REAL NOT NULL, used INTEGER NOT NULL) STRICT;
INSERT INTO workspaces VALUES('w-1', CAST('/srv/proj' AS BLOB));
INSERT INTO instances VALUES('w-1', 'i-1', 4711, 'boot:123', 'nonce', 'secret', 21000);
INSERT INTO sessions VALUES('s-1', '2025-11-25', 'codex', '1.0', CAST('{"roots":{}}' AS BLOB), 'w-1',
    CAST('/srv/proj/x' AS BLOB), 1e9, 1);
PRAGMA user_version=1;
"""
"""A file as version 0.1.0 wrote it, whose sessions had no mode."""


async def test_a_file_of_the_first_schema_keeps_everything_and_takes_more(make: Make, path: Path) -> None:
    """An upgrade loses no session."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA_1)
    store = make()
    assert await store.open() == FULL
    moded = structs.replace(SESSION, id="s-2", mode="X-MCP-Tool-Mode=discovery")
    await store.save_sessions([moded])
    assert (await reopened(make, store)).sessions == (SESSION, moded)
    assert store.degraded is None
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


async def test_a_file_of_the_third_schema_keeps_its_sessions_and_takes_sources(
    make: Make, path: Path
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"BEGIN;{SCHEMA_1}{_UPGRADES[1]}{_UPGRADES[2]}PRAGMA user_version=3;COMMIT;")
    store = make()
    assert await store.open() == FULL
    assert (SESSION.source, SESSION.last_workspace) == ("none", None)
    decided = structs.replace(SESSION, id="s-2", source="header", last_workspace="w-1")
    await store.save_sessions([decided])
    assert (await reopened(make, store)).sessions == (SESSION, decided)
    assert store.degraded is None


async def test_roots_of_registered_servers_are_known_until_they_lose_them(make: Make) -> None:
    store = make()
    await store.open()
    odd = os.fsdecode(b"/srv/\xff")
    await store.save_registered({"/srv/a": True, "/srv/b": True, odd: True})
    await store.save_registered({"/srv/a": True, "/srv/b": False, "/srv/never": False})
    assert set((await reopened(make, store)).registered) == {"/srv/a", odd}


async def test_an_upgrade_that_breaks_off_leaves_the_old_file_as_it_was(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA_1)
    with monkeypatch.context() as patch:
        patch.setitem(_UPGRADES, 1, f"{_UPGRADES[1]} nonsense;")
        broken = make()
        assert await broken.open() == Loaded()
        assert broken.degraded is not None
        await broken._run(broken._close)
    assert await make().open() == FULL


# Files that cannot be used -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        b"not a database, but long enough to be taken for one" * 50,
        b"\0" * 4096,
        b"SQLite format 3\0" + b"\xff" * 500,
    ],
)
async def test_a_corrupt_file_is_set_aside_and_replaced(make: Make, path: Path, content: bytes) -> None:
    path.write_bytes(content)
    store = make()
    assert await store.open() == Loaded()
    assert store.degraded is not None
    kept = path.with_name("state.db.corrupt-001")
    assert kept.name in store.degraded
    assert kept.read_bytes() == content
    await fill(store)
    assert store.degraded is not None, "a person still has to hear of it"
    assert await reopened(make, store) == FULL


async def test_a_damaged_page_is_noticed(make: Make, path: Path) -> None:
    store = make()
    await store.open()
    await store.save_sessions(
        [SessionRow(f"s-{n}", "r", "x" * 200, None, b"", None, None, 0.0, True) for n in range(200)]
    )
    await store._run(store._close)
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xa5" * (len(content) - 8192)
    path.write_bytes(content)
    again = make()
    assert await again.open() == Loaded()
    assert again.degraded is not None
    assert "corrupt" in again.degraded


@pytest.mark.parametrize(
    "tamper",
    [
        "UPDATE workspaces SET root = 7",
        "UPDATE instances SET pid = 'x'",
        "UPDATE sessions SET seen = x'00'",
        "ALTER TABLE instances ADD COLUMN more",
        "ALTER TABLE sessions DROP COLUMN used",
    ],
)
async def test_rows_of_another_shape_are_a_corrupt_file(make: Make, path: Path, tamper: str) -> None:
    """A flipped bit in a row is no reason not to start."""
    store = make()
    await store.open()
    await fill(store)
    await store._run(store._close)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema=ON")
        database.execute("UPDATE sqlite_master SET sql = replace(sql, ' STRICT', '')")
        database.execute("PRAGMA writable_schema=OFF")
    database.close()
    with sqlite3.connect(path) as database:
        database.execute(tamper)
        if not tamper.startswith("ALTER"):
            database.execute("PRAGMA writable_schema=ON")
            database.execute("UPDATE sqlite_master SET sql = sql || ' STRICT' WHERE type = 'table'")
    database.close()
    again = make()
    assert await again.open() == Loaded()
    assert again.degraded is not None
    assert "corrupt" in again.degraded


async def test_at_most_three_corrupt_files_are_kept(make: Make, path: Path) -> None:
    for _ in range(5):
        path.write_bytes(b"x" * 5000)
        store = make()
        await store.open()
        await store._run(store._close)
    assert sorted(one.name for one in path.parent.glob("*.corrupt-*")) == [
        f"state.db.corrupt-00{n}" for n in (3, 4, 5)
    ]


async def test_an_empty_file_is_a_fresh_start(make: Make, path: Path) -> None:
    path.touch()
    store = make()
    assert await store.open() == Loaded()
    assert store.degraded is None
    await fill(store)
    assert await reopened(make, store) == FULL


async def test_a_newer_file_is_left_untouched(make: Make, path: Path) -> None:
    """A downgrade serves from memory and loses nothing."""
    with sqlite3.connect(path) as database:
        database.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
        database.execute("CREATE TABLE workspaces(future TEXT)")
    database.close()
    before = path.read_bytes()
    store = make()
    assert await store.open() == Loaded()
    assert store.degraded is not None
    assert "newer version" in store.degraded
    await fill(store)
    await store._run(store._close)
    assert path.read_bytes() == before


async def test_a_folder_that_cannot_be_made_degrades_and_serves_on(path: Path) -> None:
    path.write_text("a file in the place of the folder")
    store = Store(path / "deeper" / "state.db", set_aside_name=str)
    assert await store.open() == Loaded()
    assert store.degraded is not None
    await fill(store)
    await store.close()


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link"])
async def test_a_place_that_cannot_be_written_degrades_and_serves_on(
    make: Make, path: Path, kind: str
) -> None:
    target = path.with_name("elsewhere")
    if kind == "folder":
        path.mkdir()
    else:
        if kind == "link":
            target.write_bytes(b"")
        path.symlink_to(target)
    store = make()
    assert await store.open() == Loaded()
    assert store.degraded is not None
    assert store.degraded.startswith("state cannot be opened: ")
    await fill(store)
    assert target.exists() is (kind == "link")
    assert not target.exists() or target.read_bytes() == b""


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everything")
async def test_a_file_that_may_not_be_written_degrades_and_is_kept(make: Make, path: Path) -> None:
    path.touch(mode=0o400)
    store = make()
    assert await store.open() == Loaded()
    assert store.degraded is not None


async def test_what_a_full_disk_refused_is_saved_when_there_is_room(make: Make) -> None:
    store = make()
    await store.open()
    await fill(store)

    async def allow(pages: int) -> None:
        assert store._database is not None
        database = store._database
        await store._run(lambda: database.execute(f"PRAGMA max_page_count={pages}").fetchone())

    await allow(1)  # never less than there are: from now on the file cannot grow
    big = SessionRow("s-2", "r", "x" * 100_000, None, b"", None, None, 0.0, True)
    await store.save_sessions([big])
    assert store.degraded is not None
    assert store.degraded.startswith("state cannot be saved: ")
    await store.retry()
    assert store.degraded is not None
    await allow(1_000_000)
    await store.retry()
    assert store.degraded is None
    assert (await reopened(make, store)).sessions == (SESSION, big)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program holds the write lock of the file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No write waits for a lock."""
    monkeypatch.setattr(store_module, "WRITE_WAIT_S", 0)


@pytest.mark.usefixtures("impatient")
async def test_what_was_refused_while_the_file_was_locked_is_saved_later(make: Make, path: Path) -> None:
    """Later writes wait for it, so that their order stays."""
    store = make()
    await store.open()
    with locked(path):
        await store.save_workspace(WORKSPACE)
        assert await store.save_instance(INSTANCE)
        await store.save_sessions([SESSION, structs.replace(SESSION, id="s-2")])
    await store.drop_sessions(["s-2"])
    assert store.degraded is not None
    await store.retry()
    assert store.degraded is None
    assert await reopened(make, store) == FULL


@pytest.mark.usefixtures("impatient")
async def test_what_was_never_saved_is_known_after_a_kill(make: Make, path: Path) -> None:
    """The next manager reads the file of unsaved writes, once."""
    store = make()
    await store.open()
    await store.save_instance(structs.replace(INSTANCE, instance="i-0"))
    with locked(path):
        await store.drop_instance("w-1", "i-0")
        await fill(store)
        await store.drop_instance("w-1", "i-0")  # its row is that of a newer instance by now
        await store.retry()
    second = make()
    assert await second.open() == FULL
    assert not path.with_name("state.db.unsaved").exists()
    assert second.degraded is None


async def test_unsaved_writes_that_cannot_be_read_are_no_fault(make: Make, path: Path) -> None:
    path.with_name("state.db.unsaved").write_bytes(b"\x00rubbish")
    assert await make().open() == Loaded()


async def test_a_state_file_that_was_removed_is_made_again_with_everything(make: Make, path: Path) -> None:
    store = make()
    await store.open()
    await fill(store)
    shutil.rmtree(path.parent)
    await store.retry()
    assert store.degraded is None
    await store.save_sessions([structs.replace(SESSION, id="s-2")])
    loaded = await reopened(make, store)
    assert loaded == structs.replace(FULL, sessions=(SESSION, structs.replace(SESSION, id="s-2")))


async def test_a_file_that_can_be_opened_late_takes_what_was_kept(make: Make, path: Path) -> None:
    path.mkdir()
    store = make()
    await store.open()
    await fill(store)
    path.rmdir()
    await store.retry()
    assert store.degraded is None
    assert await reopened(make, store) == FULL


async def test_many_rows_are_saved_together_or_not_at_all(make: Make) -> None:
    store = make()
    await store.open()
    bad = SessionRow("s-2", "\ud800", None, None, b"", None, None, 0.0, True)
    await store.save_sessions([SESSION, bad])
    assert store.degraded is not None
    assert (await reopened(make, store)).sessions == ()


@given(content=st.binary(max_size=200), at=st.integers(0, 20_000))
async def test_no_damage_to_the_file_is_a_fault(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, at: int
) -> None:
    """Whatever bytes are there, the manager starts."""
    path = tmp_path_factory.mktemp("store") / "state.db"
    first = Store(path, set_aside_name=lambda: "x")
    await first.open()
    await fill(first)
    await first.close()
    whole = bytearray(path.read_bytes())
    at %= len(whole)
    whole[at : at + len(content)] = content
    path.write_bytes(whole)
    second = Store(path, set_aside_name=lambda: "x")
    found = await second.open()
    assert isinstance(found, Loaded)
    await fill(second)
    await second.close()


def columns(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The columns of each table, with their types, constraints and defaults."""
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        return {name: database.execute(f"PRAGMA table_info({name})").fetchall() for name in tables}


@pytest.mark.parametrize("version", range(1, SCHEMA_VERSION))
async def test_a_file_of_each_earlier_schema_becomes_one_like_a_new_file(
    make: Make, path: Path, tmp_path: Path, version: int
) -> None:
    """With everything in it, whatever the version that wrote it."""
    upgrades = "".join(_UPGRADES[older] for older in range(1, version))
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"BEGIN;{SCHEMA_1}{upgrades}PRAGMA user_version={version};COMMIT;")
    store = make()
    assert await store.open() == FULL
    assert await reopened(make, store) == FULL
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    fresh = Store(tmp_path / "fresh.db", set_aside_name=lambda: "x")
    await fresh.open()
    await fresh.close()
    assert columns(path) == columns(tmp_path / "fresh.db")
