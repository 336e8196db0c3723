"""Tests log lines: redaction, their form at `/mcp/log`, and output that cannot be written."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator

import pytest

from manager import log
from support.processes.managers.logging_state import restored_logging


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    with restored_logging():
        yield


def written(style: str = "json", level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    log.configure(level, style, stream)
    return stream


def test_an_event_is_one_line_of_json() -> None:
    stream = written()
    log.logger(workspace="w").info("workspace.ready", pid=5)
    line = json.loads(stream.getvalue())
    assert {key: line[key] for key in ("event", "level", "workspace", "pid")} == {
        "event": "workspace.ready",
        "level": "info",
        "workspace": "w",
        "pid": 5,
    }
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize(("level", "lines"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)])
def test_lines_below_the_level_are_not_written(level: str, lines: int) -> None:
    stream = written(level=level)
    for name in ("debug", "info", "warning"):
        getattr(log.logger(), name)("x")
    assert len(stream.getvalue().splitlines()) == lines
    assert len(log.recent_lines) == lines


def test_auto_means_json_where_no_terminal_is() -> None:
    stream = written("auto")
    log.logger().info("x")
    assert json.loads(stream.getvalue())["event"] == "x"


@pytest.mark.parametrize("style", ["json", "console"])
@pytest.mark.parametrize(
    "field",
    ["secret", "token", "access_token", "Authorization", "cookie", "password", "nonce", "clientSecret"],
)
def test_confidential_fields_are_blanked_everywhere(style: str, field: str) -> None:
    stream = written(style)
    log.logger(**{field: "hunter2"}).info("x", **{f"my_{field}": "hunter2"})
    shown = stream.getvalue() + "".join(log.recent_lines)
    assert "hunter2" not in shown
    assert shown.count("[hidden]") == 4


@pytest.mark.parametrize(
    ("identity", "shown"), [(None, None), ("abc", "abc…"), ("83795f1e-eb58-4caa", "83795f1e…")]
)
def test_session_ids_are_shown_shortened(identity: str | None, shown: str | None) -> None:
    assert log.short(identity) == shown


def test_a_recent_line_is_time_tag_and_fields() -> None:
    written()
    log.logger().info("handshake.ok", workspace="w", tools=3)
    (line,) = log.recent_lines
    assert re.fullmatch(r"\[\d{4}-\d\d-\d\dT[\d:.]+Z\] \[handshake\.ok\] workspace=w tools=3", line)


def test_a_recent_line_without_fields_has_no_blank_at_its_end() -> None:
    written()
    log.logger().info("ready")
    assert log.recent_lines[0].endswith("[ready]")


def test_the_last_200_lines_are_kept_oldest_first() -> None:
    written()
    for number in range(250):
        log.logger().info("x", n=number)
    assert len(log.recent_lines) == 200
    assert log.recent_lines[0].endswith("n=50")
    assert log.recent_lines[-1].endswith("n=249")


HOSTILE = "a\nb\r\x1b[2Jc\x00d\u2028e\u202ef"


@pytest.mark.parametrize("style", ["json", "console"])
def test_control_characters_never_reach_a_terminal_or_the_log_page(style: str) -> None:
    stream = written(style)
    log.logger().info("x", cwd=HOSTILE)
    (line,) = log.recent_lines
    assert line.isprintable()
    assert r"\n" in line
    assert r"\x1b" in line
    lines = stream.getvalue().rstrip("\n")
    assert not any(character in lines for character in "\n\r\x00\u2028\u202e")
    assert "\x1b[2J" not in lines


def test_a_long_value_is_cut() -> None:
    written()
    log.logger().info("x", cwd="y" * 10_000)
    assert len(log.recent_lines[0]) < 600


class _Unwritable(io.StringIO):
    def write(self, _text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "broken"])
def test_a_stream_that_cannot_be_written_stops_nothing(closed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither our lines nor those of libraries."""
    stream = io.StringIO() if closed else _Unwritable()
    log.configure("info", "json", stream)
    monkeypatch.setattr(sys, "stderr", stream)
    if closed:
        stream.close()
    log.logger().error("x")
    logging.getLogger("aiohttp.server").error("y")
    assert log.recent_lines[-1].endswith("[x]")


def test_lines_of_libraries_take_the_same_shape() -> None:
    stream = written()
    logging.getLogger("aiohttp.server").warning("odd %s", "thing")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["level"]) == ("odd thing", "warning")


def test_an_exception_is_written_as_text() -> None:
    stream = written()
    try:
        raise KeyError("k")
    except KeyError:
        log.logger().exception("fault")
    assert "KeyError: 'k'" in json.loads(stream.getvalue())["exception"]


def test_a_value_that_is_no_json_is_written_all_the_same() -> None:
    stream = written()
    log.logger().info("x", value={1, 2}, raw=b"\xff")
    assert json.loads(stream.getvalue())["raw"] == repr(b"\xff")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("level", "shows"), [("info", False), ("debug", True)])
def test_a_fault_is_a_sentence_on_a_terminal(level: str, shows: bool) -> None:
    stream, kept = Terminal(), []
    log.configure(level, "console", stream)
    log.copy_to(kept.append)
    try:
        raise ValueError("broken")
    except ValueError:
        logging.getLogger("asyncio").exception("a task failed")
        log.logger().error("task.failed", why="ValueError: broken", exc_info=True)
    finally:
        log.copy_to(None)
    assert "ValueError: broken" in stream.getvalue()
    assert ("Traceback" in stream.getvalue()) is shows
    assert all("Traceback" in line for line in kept)
    assert "exc_info" not in log.recent_lines[-1]
