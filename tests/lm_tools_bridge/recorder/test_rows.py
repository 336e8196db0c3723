"""The source of a recorded call is known by the beginning of the tool's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.recorder.call_filter import Filter
from lm_tools_bridge.recorder.recorder import Limits, Recorder
from lm_tools_bridge.recorder.rows import source_of
from support.recorded_calls import Clock, ended, file, log_of

SOURCES = ("builtin", "script", "stdio:git", "remote:git-hub", "stdio:git__x", "language-server:py")


@pytest.mark.parametrize(
    ("tool", "source"),
    [("git__log", "stdio:git"), ("git__x__log", "stdio:git__x"), ("git-hub__issues", "remote:git-hub"),
     ("lm_findFiles", ""), ("gitlog", ""), ("git", ""), ("py__x", ""), ("", "")],
)  # fmt: skip
def test_the_longest_namespace_that_a_name_begins_with_tells(tool: str, source: str) -> None:
    assert source_of(tool, SOURCES) == source


def test_records_have_the_source_that_was_reported(tmp_path: Path) -> None:
    known: dict[str, tuple[str, ...]] = {}
    clock = Clock()
    limits = Limits(10**8, 1e6, 1e6)
    one = Recorder(
        file(tmp_path),
        limits,
        wall=lambda: clock.wall,
        now=lambda: clock.monotonic,
    )
    one.start(lambda workspace: known.get(workspace, ()))
    one.observe_call(ended("git__log"))
    assert one.write_now(10)
    known["site-1a2b"] = SOURCES
    for tool in ("git__log", "lm_findFiles", "git__log"):
        one.observe_call(ended(tool))
    one.close()
    with log_of(tmp_path) as log:
        found = [call.source for call in log.find(Filter(), 9)]
        assert found == ["stdio:git", None, "stdio:git", None], "the first came before any was known"
        assert len(log.find(Filter(source="stdio:*"), 9)) == 2
