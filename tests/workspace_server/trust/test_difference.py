"""Differences are complete, limited in length, and escaped for the terminal."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.text.printable import printable
from support.examples import examples
from support.processes.timeouts import within
from workspace_server.trust.difference import MAX_LINES, MAX_WIDTH, ItemChange, differences
from workspace_server.trust.item import TrustItem, file_name
from workspace_server.trust.records import FolderIdentity, RecordedItem, decode, encode, record_of

FOLDER = FolderIdentity("/ws", 1, 2)


def recorded(*items: TrustItem) -> dict[str, RecordedItem]:
    """The items as they come back from the disk."""
    return dict(decode(encode(record_of(FOLDER, items))).items)


def script(content: bytes, name: str = "run.py", **facts: object) -> TrustItem:
    return TrustItem("script:t", "script tool t", facts, {name: content})


def only(changes: list[ItemChange]) -> ItemChange:
    (change,) = changes
    return change


def test_unchanged_items_are_not_reported() -> None:
    item = script(b"a\n", cwd=".")
    assert differences(recorded(item), [item]) == []


def test_changed_lines_are_shown_with_their_signs() -> None:
    change = only(differences(recorded(script(b"a\nb\n")), [script(b"a\nc\n")]))
    assert (change.key, change.kind) == ("script:t", "changed")
    assert "-b" in change.lines and "+c" in change.lines and "+a" not in change.lines


def test_a_changed_configuration_is_shown_by_name() -> None:
    before = TrustItem("stdio:gh", "t", {"written": {"args": ["a"]}, "program": "/usr/bin/node"})
    now = TrustItem("stdio:gh", "t", {"written": {"args": ["b"]}, "program": "/opt/node"})
    lines = only(differences(recorded(before), [now])).lines
    for line in (
        '-program = "/usr/bin/node"',
        '+program = "/opt/node"',
        '-written.args[0] = "a"',
        '+written.args[0] = "b"',
    ):
        assert line in lines


def test_new_and_removed_items_are_told_apart() -> None:
    new = TrustItem("stdio:b", "new one", {"x": 1})
    changes = differences(recorded(script(b"a\n")), [new])
    assert [(one.key, one.kind) for one in changes] == [("stdio:b", "added"), ("script:t", "removed")]
    assert "-a" in changes[1].lines and "+x = 1" in changes[0].lines


@pytest.mark.parametrize(
    "now",
    [
        script(b"a\n", file_name("run.py", executable=True)),
        script(b"a\n", file_name("run.py", link=True)),
        script(b"a\n", "run2.py"),
        script(b"a"),
        script(b"a\r\n"),
        script(b"a \n"),
        script(b"a\xc2\xa0\n"),
        script(b"a\xe2\x80\x8b\n"),
        script(b"a\x00\n"),
        script(b"\xff"),
        script(b"a\n" + b"b" * 100_000),
        script(b"a\n" * 5_000),
        script(b"a\n", x=None),
        script(b"a\n", x=[]),
        TrustItem("script:t", "script tool t", {}, {}),
    ],
    ids=lambda item: repr((item.facts, {name: content[:9] for name, content in item.files.items()})),
)
def test_every_difference_is_visible(now: TrustItem) -> None:
    before = script(b"a\n")
    for one, two in ((before, now), (now, before)):
        lines = only(differences(recorded(one), [two])).lines
        removed = {line[1:] for line in lines if line.startswith("-")}
        added = {line[1:] for line in lines if line.startswith("+")}
        assert removed != added


def test_a_difference_after_the_cut_of_a_line_is_visible() -> None:
    before, now = (script(b"x" * 10_000 + end, arg="y" * 10_000 + end.decode()) for end in (b"1", b"2"))
    lines = only(differences(recorded(before), [now])).lines
    assert sum(line.startswith("-x") for line in lines) == 1
    assert sum(line.startswith("+arg") for line in lines) == 1


def test_binary_and_large_files_are_sizes_and_hashes() -> None:
    change = only(differences(recorded(script(b"\x00\x01")), [script(b"\x00\x02")]))
    assert [line[:26] for line in change.lines] == [
        "- run.py (2 bytes, sha256 ",
        "+ run.py (2 bytes, sha256 ",
    ]


HOSTILE = "\x1b]52;c;ZXZpbA==\x07\x1b[2K\r\x9b1A\u202eevil\u2066\u200b\U000e0041\ud800\n+trusted\x0b\x85\u2028 \u3164"


def test_hostile_text_is_escaped_for_the_terminal() -> None:
    hostile = TrustItem(
        f"script:{HOSTILE}",
        HOSTILE,
        {HOSTILE: HOSTILE, "args": [HOSTILE]},
        {f"{HOSTILE}.py": HOSTILE.encode("utf-8", "replace"), "b.py": b"\x1b[31m\r\n"},
    )
    for change in (*differences({}, [hostile]), *differences(recorded(hostile), [])):
        for text in (change.key, change.title, *change.lines):
            assert text.isprintable() and "\u3164" not in text


@examples(150)
@given(st.text())
def test_printable_text_has_no_control_characters(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    if text.isascii() and text.isprintable():
        assert shown == text


def test_a_long_difference_is_cut_with_a_note() -> None:
    change = only(differences({}, [script(b"\n".join(b"%d" % n for n in range(1500)), words="w" * 5000)]))
    assert len(change.lines) == MAX_LINES + 1 and "cut here" in change.lines[-1]
    assert max(map(len, change.lines)) < MAX_WIDTH * 2
    assert any("more characters" in line for line in change.lines)


def test_comparison_time_is_bounded() -> None:
    before = script(b"".join(b"%d\n" % (n % 7) for n in range(1900)))
    now = script(b"".join(b"%d\n" % (n % 5) for n in range(1900)))
    began = time.thread_time()
    assert differences(recorded(before), [now])
    assert time.thread_time() - began < within(0.5)


def test_texts_are_recorded_up_to_a_limit() -> None:
    many = TrustItem("script:t", "t", {}, {f"{n}.txt": b"x" * 60_000 for n in range(200)})
    assert len(encode(record_of(FOLDER, [many]))) < 6_000_000
    assert recorded(many)["script:t"].files["199.txt"].text is None
