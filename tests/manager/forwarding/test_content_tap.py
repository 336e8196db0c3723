"""The copy of an answer for an observer of calls has a limit."""

from __future__ import annotations

from manager.call_observer import MAX_CONTENTS, CallDetails
from manager.forwarding.body_flow import keep


def test_long_contents_are_cut_and_say_so() -> None:
    details = CallDetails(result=bytearray())
    keep(details, b"x" * MAX_CONTENTS)
    assert not details.is_cut
    keep(details, b"y")
    assert details.is_cut
    assert details.result == b"x" * MAX_CONTENTS


def test_the_beginning_of_a_piece_that_is_too_long_is_copied() -> None:
    details = CallDetails(result=bytearray())
    keep(details, memoryview(b"x" * (MAX_CONTENTS + 1)))
    assert details.is_cut
    assert details.result == b"x" * MAX_CONTENTS
