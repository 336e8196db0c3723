"""The file that says which team was joined."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from lm_tools_bridge.team.membership import (
    FILE_NAME,
    Membership,
    OwnOffer,
    UnreadableMembership,
    Use,
    change,
    create,
    load,
    remove,
    store,
)

HELD = Membership(
    servers=("nats://127.0.0.1:4222",), name="me", offers=(OwnOffer("docs", "/x"),), uses=(Use("db", "db"),)
)


def test_a_membership_is_read_as_it_was_written_by_its_user_only(tmp_path: Path) -> None:
    store(tmp_path, HELD)
    assert load(tmp_path) == HELD
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_no_file_means_no_team(tmp_path: Path) -> None:
    assert load(tmp_path) is None
    assert not remove(tmp_path)


def test_a_change_is_kept(tmp_path: Path) -> None:
    store(tmp_path, HELD)
    change(tmp_path, lambda now: msgspec.structs.replace(now, uses=()))
    held = load(tmp_path)
    assert held is not None
    assert (held.use("db"), held.offer("docs")) == (None, OwnOffer("docs", "/x"))
    assert remove(tmp_path)
    with pytest.raises(UnreadableMembership, match="no team"):
        change(tmp_path, lambda now: now)


def test_a_file_that_others_can_read_or_that_is_damaged_is_not_used(tmp_path: Path) -> None:
    store(tmp_path, HELD)
    (tmp_path / FILE_NAME).chmod(0o644)
    with pytest.raises(UnreadableMembership, match="chmod 600"):
        load(tmp_path)
    (tmp_path / FILE_NAME).write_text("{")
    os.chmod(tmp_path / FILE_NAME, 0o600)
    with pytest.raises(UnreadableMembership):
        load(tmp_path)


def test_of_two_that_join_at_once_one_does(tmp_path: Path) -> None:
    others = [msgspec.structs.replace(HELD, name=f"m{number}") for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda one: create(tmp_path, one), others))
    assert done.count(True) == 1
    assert load(tmp_path) == others[done.index(True)]


def test_a_change_does_not_bring_back_what_was_left(tmp_path: Path) -> None:
    store(tmp_path, HELD)
    assert remove(tmp_path)
    with pytest.raises(UnreadableMembership, match="no team was joined"):
        change(tmp_path, lambda held: held)
    assert load(tmp_path) is None


def test_leaving_waits_for_a_change(tmp_path: Path) -> None:
    """Otherwise the change would write the membership again."""
    store(tmp_path, HELD)
    changing, left = threading.Event(), threading.Event()

    def edit(held: Membership) -> Membership:
        changing.set()
        left.wait(0.3)
        return held

    with ThreadPoolExecutor(2) as pool:
        pool.submit(change, tmp_path, edit)
        assert changing.wait(5)
        assert remove(tmp_path)
        left.set()
    assert load(tmp_path) is None
