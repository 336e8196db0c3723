"""Tests of the times that status shows."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import pytest

from manager.admin import status
from manager.admin.status import Clock


@pytest.fixture(params=["UTC", "America/St_Johns"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    status._texts.cache_clear()
    yield
    monkeypatch.undo()
    time.tzset()
    status._texts.cache_clear()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("wall", [0.0, 1_764_100_000.25, 1_764_100_000.75, 1_753_200_000.001953125])
def test_a_moment_is_told_in_milliseconds_in_utc_and_in_local_time(wall: float) -> None:
    told = Clock(100.0, wall + 40.0).stamps("lastSeen", 60.0)
    local = datetime.datetime.fromtimestamp(wall).astimezone()
    assert told == {
        "lastSeen": int(wall * 1000),
        "lastSeenIso": local.astimezone(datetime.UTC).isoformat(timespec="milliseconds"),
        "lastSeenLocal": f"{local:%Y-%m-%d %H:%M:%S}",
    }


def test_what_never_was_is_told_as_nothing() -> None:
    clock = Clock(100.0, 1000.0)
    assert clock.stamps("at", None) == {"at": None, "atIso": None, "atLocal": None}
    assert (clock.age(None), clock.age(97.5)) == (None, 2)
