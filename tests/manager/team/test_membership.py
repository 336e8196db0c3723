"""The file that says which team was joined."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from manager.team.membership import (
    FILE_NAME,
    Membership,
    OwnOffer,
    UnreadableMembership,
    Use,
    change,
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
