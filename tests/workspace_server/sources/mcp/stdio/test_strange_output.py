from __future__ import annotations

import pytest

from workspace_server.sources.mcp.stdio.strange_output import MAX_QUOTED, explain, quoted

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([b"Content-Length: 80", b"", ANSWER[:-1]], "Content-Length"),
        ([b"content-length:80\r"], "Content-Length"),
        ([b"Loading... " + ANSWER], "before its message on the same line"),
        ([ANSWER + b" ready"], "more text follows its message"),
        ([b'{"id":1,"result":{}}'], 'lack "jsonrpc"'),
        ([b'{"jsonrpc":"1.0","id":1,"result":{}}'], 'lack "jsonrpc"'),
        ([b"{", b'  "jsonrpc": "2.0",', b'  "id": 1', b"}"], "over several lines"),
        ([b'{"jsonrpc": "2.0",', b'"id": 1}'], "over several lines"),
        ([b"[" + ANSWER + b"]"], "batch"),
        ([b"{'jsonrpc': '2.0', 'id': 1}"], "single quotes"),
        (["\ufeff{}".encode("utf-16-le"), b"\0"], "UTF-16"),
        (["INFO starting".encode("utf-16-le")], "UTF-16"),
        ([b"INFO starting", b"INFO ready"], "logs belong on standard error"),
        ([ANSWER.replace(b":1,", b":77,")], "an id that was not asked"),
        ([b'{"jsonrpc":"2.0","method":"notifications/message","params":{}}'], "nothing that answers"),
        ([], "nothing that answers"),
    ],
)
def test_the_reason_of_a_silent_handshake_is_named(lines: list[bytes], reason: str) -> None:
    assert reason in explain(lines)


@pytest.mark.parametrize("number", [b"77", b"null", b'"x"'])
def test_an_answer_to_another_request_is_quoted(number: bytes) -> None:
    line = ANSWER.replace(b":1,", b":%b," % number)
    assert explain([line]) == f"it answers with an id that was not asked; the first such line: {quoted(line)}"


def test_a_banner_before_a_fault_does_not_hide_it() -> None:
    said = explain([b"My server v1", b"[INFO] up", b'{"id":1,"result":{}}'])
    assert 'lack "jsonrpc"' in said
    assert said.endswith('the first such line: "My server v1"')


@pytest.mark.parametrize(
    ("unfinished", "reason"),
    [(ANSWER, "line feed"), (b"Loading... ", "without a line end"), (b"Content-Length: 8", "Content-Length")],
)
def test_output_without_a_line_end_is_told(unfinished: bytes, reason: str) -> None:
    assert reason in explain([], unfinished)


def test_a_line_is_quoted_in_one_line_without_escapes_and_cut() -> None:
    assert quoted(b"\x1b[31mred\x1b[0m\ta\x07\xff") == '"red\\ta\ufffd"'.replace("\\t", "\\t")
    assert len(quoted(b"x" * 10_000)) <= MAX_QUOTED + 2
    assert "\n" not in quoted(b"a\rb\x0bc")
