"""The garbage collector rests while many objects are made, and works on afterwards."""

from __future__ import annotations

import gc

import pytest

from workspace_server.garbage_pause import garbage_pause


def test_pauses_that_overlap_end_with_the_last_one() -> None:
    assert gc.isenabled()
    first, second = garbage_pause(), garbage_pause()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_the_collector_works_on_after_a_failure() -> None:
    with pytest.raises(OSError, match="broken"), garbage_pause():
        raise OSError("broken")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with garbage_pause():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
