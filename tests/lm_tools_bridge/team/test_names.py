"""Names and subjects: what others choose never changes the shape of a subject."""

from __future__ import annotations

import pytest

from lm_tools_bridge.team.names import (
    CallSubject,
    call_subject,
    control_subject,
    controlling_caller,
    is_token,
    key_of,
    key_subject,
    parsed_call,
)


@pytest.mark.parametrize("text", ["", "a.b", "*", ">", "a b", "é", "a" * 65, "a\r\nPUB", None, 5])
def test_names_that_could_change_a_subject_are_refused(text: object) -> None:
    assert not is_token(text)


def test_a_call_subject_is_read_as_it_was_made() -> None:
    to = CallSubject("build-1", "docs", "bob")
    assert call_subject(to) == "lmtb.call.build-1.docs.bob"
    assert parsed_call(call_subject(to)) == to


@pytest.mark.parametrize(
    "subject", ["lmtb.call.a.b", "lmtb.call.a.b.c.d", "other.call.a.b.c", "lmtb.call.a..c"]
)
def test_other_subjects_are_no_calls(subject: str) -> None:
    assert parsed_call(subject) is None


def test_a_control_message_names_its_caller() -> None:
    assert controlling_caller(control_subject("build-1", "bob")) == "bob"
    assert controlling_caller("lmtb.control.build-1.b.c") is None


def test_keys_of_other_buckets_are_not_taken() -> None:
    assert key_of("x", key_subject("x", "host")) == "host"
    assert key_of("x", "$KV.y.host") is None
