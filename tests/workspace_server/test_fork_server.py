"""Tests of what the fork server does with its memory before it forks."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType

from workspace_server.fork_server import move_code_together, recorded_code


def _make_counter(start: int) -> Callable[[], list[int]]:
    def count() -> list[int]:
        return [start + number for number in range(2)]

    return count


def _idle() -> None:
    """Is never called."""


def test_moved_code_does_what_it_did() -> None:
    def idle() -> None:
        """Is not among those to move."""

    counter, idle_code = _make_counter(4), idle.__code__
    code = counter.__code__

    move_code_together([code])

    assert counter.__code__ is not code
    assert counter.__code__ == code
    assert counter() == [4, 5]
    assert idle.__code__ is idle_code


def test_functions_that_share_their_code_share_the_copy() -> None:
    first, second = _make_counter(1), _make_counter(2)

    move_code_together([first.__code__])

    assert first.__code__ is second.__code__
    assert (first(), second()) == ([1, 2], [2, 3])


def test_moved_function_makes_functions_of_moved_code() -> None:
    def make() -> Callable[[], int]:
        return lambda: 7

    code: CodeType = make().__code__

    move_code_together([make.__code__, code])

    assert make().__code__ is not code
    assert make()() == 7


def test_code_of_all_threads_is_recorded_while_the_block_lasts() -> None:
    counter, before = _make_counter(1), sys.getprofile()

    with recorded_code() as executed:
        thread = threading.Thread(target=counter)
        thread.start()
        thread.join()
        _make_counter(2)

    _idle()
    assert {counter.__code__, _make_counter.__code__} <= set(executed)
    assert _idle.__code__ not in executed
    assert sys.getprofile() is before
