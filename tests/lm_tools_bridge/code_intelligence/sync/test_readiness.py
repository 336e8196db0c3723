"""When a server counts as having read the project."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.specification import ReadySignal, ServerSpecification
from lm_tools_bridge.code_intelligence.sync.readiness import MAX_TOKENS, PAUSE_S, SILENCE_S, Readiness

STATUS = "experimental/serverStatus"
LOG = "window/logMessage"


class Watched:
    """A readiness with a clock that a test sets."""

    def __init__(self, signal: ReadySignal, title: str = "") -> None:
        kind = ServerSpecification("fake", {}, (), ready=signal, ready_title=title)
        self.now = 100.0
        self.readiness = Readiness(kind, self.now)

    def progress(self, kind: str, token: str | int = 1, **members: Any) -> None:
        self.notify("$/progress", {"token": token, "value": {"kind": kind, **members}})

    def notify(self, method: str, params: Any) -> None:
        self.readiness.take_notification(method, params, self.now)

    @property
    def state(self) -> str:
        return self.readiness.state(self.now).state

    def after(self, seconds: float) -> str:
        self.now += seconds
        return self.state


def test_requests_that_wait_are_always_complete() -> None:
    assert Watched("first-answer").state == "fresh"


def test_a_server_without_a_sign_is_unknown_with_the_reason() -> None:
    found = Watched("settled").readiness.state(100)
    assert (found.state, bool(found.reason)) == ("unknown", True)


def test_the_end_of_progress_makes_it_fresh_after_a_pause() -> None:
    watched = Watched("progress", "Loading")
    assert watched.state == "indexing"
    watched.progress("begin", title="Loading 3 packages")
    assert watched.after(1000) == "indexing"
    watched.progress("end")
    assert watched.state == "indexing"
    assert watched.readiness.changes_at(watched.now) == watched.now + PAUSE_S
    assert watched.after(PAUSE_S) == "fresh"


def test_progress_that_begins_again_is_not_the_end() -> None:
    watched = Watched("background-index")
    for _ in range(3):
        watched.progress("begin", "backgroundIndexProgress", title="indexing")
        assert watched.after(1) == "indexing"
        watched.progress("end", "backgroundIndexProgress")
        assert watched.after(PAUSE_S / 2) == "indexing"
    assert watched.after(PAUSE_S) == "fresh"
    watched.progress("begin", "backgroundIndexProgress", title="indexing")
    assert watched.state == "indexing"


def test_all_tokens_must_end() -> None:
    watched = Watched("progress", "Loading")
    watched.progress("begin", 1, title="Loading a")
    watched.progress("begin", "two", title="Loading b")
    watched.progress("end", 1)
    assert watched.after(10) == "indexing"
    watched.progress("end", "two")
    assert watched.after(1) == "fresh"


def test_progress_about_something_else_says_nothing() -> None:
    watched = Watched("progress", "Loading")
    watched.progress("begin", title="Finding references")
    watched.progress("end")
    assert watched.after(1) == "indexing"


@pytest.mark.parametrize(
    ("message", "counts"), [("3/40", (3, 40)), ("file 7 of 9", (7, 9)), ("reading", (None, None))]
)
def test_counts_are_read_from_the_message(message: str, counts: tuple[int | None, int | None]) -> None:
    watched = Watched("background-index")
    watched.progress("begin", "backgroundIndexProgress", title="indexing")
    watched.progress("report", "backgroundIndexProgress", message=message, percentage=7.5)
    found = watched.readiness.state(watched.now)
    assert (found.done, found.total) == counts
    assert ("7 %" in found.reason) is (counts == (None, None))


@pytest.mark.parametrize(
    ("signal", "state"),
    [("progress", "unknown"), ("quiescent", "unknown"), ("log-message", "unknown"), ("background-index", "partial")],
)  # fmt: skip
def test_a_server_that_never_says_anything_is_not_taken_for_ready(signal: ReadySignal, state: str) -> None:
    watched = Watched(signal, "x")
    assert watched.after(SILENCE_S[signal] - 1) == "indexing"
    assert watched.after(2) == state
    assert watched.readiness.state(watched.now).reason
    assert watched.readiness.changes_at(watched.now) is None


def test_silence_counts_from_the_first_file_on() -> None:
    watched = Watched("progress", "x")
    watched.now += SILENCE_S["progress"] + 1
    watched.readiness.note_request(watched.now)
    assert watched.state == "indexing"


def test_quiescent_may_become_false_again() -> None:
    watched = Watched("quiescent")
    for quiescent, state in ((False, "indexing"), (True, "fresh"), (False, "indexing"), (True, "fresh")):
        watched.notify(STATUS, {"health": "ok", "quiescent": quiescent})
        assert watched.state == state


def test_a_project_that_cannot_be_loaded_is_partial() -> None:
    watched = Watched("quiescent")
    watched.notify(STATUS, {"health": "error", "quiescent": True, "message": "no Cargo.toml"})
    found = watched.readiness.state(watched.now)
    assert found.state == "partial"
    assert "no Cargo.toml" in found.reason


@pytest.mark.parametrize(
    ("message", "cure"),
    [
        ("can't load standard library, try installing `rust-src`", "rustup component add rust-src"),
        ("`cargo metadata` exited with an error", "cargo fetch"),
        ("Failed to run build scripts of some packages.", "cargo check"),
        ("something nobody knows", ""),
    ],
)
def test_a_warning_of_the_server_is_told_with_what_mends_it(message: str, cure: str) -> None:
    watched = Watched("quiescent")
    watched.notify(STATUS, {"health": "warning", "quiescent": True, "message": message})
    freshness = watched.readiness.state(watched.now)
    assert freshness.state == "partial"
    assert freshness.reason == f"it reports a warning: {message}" + (f"; to mend it: {cure}" if cure else "")


def test_a_log_message_tells_that_files_were_found_until_the_configuration_changes() -> None:
    watched = Watched("log-message", "Found ")
    watched.notify(LOG, {"type": 3, "message": "Loading pyproject.toml"})
    assert watched.state == "indexing"
    watched.notify(LOG, {"type": 3, "message": "Found 401 source files"})
    assert watched.state == "fresh"
    watched.readiness.reconfigured(watched.now)
    assert watched.state == "indexing"
    watched.notify(LOG, {"type": 3, "message": "Found 401 source files"})
    assert watched.state == "fresh"


@pytest.mark.parametrize("signal", SILENCE_S)
@pytest.mark.parametrize(
    "params",
    [
        *(None, 3, [], {}, {"token": [], "value": {}}, {"token": 1, "value": 4}, {"quiescent": "yes"}),
        *({"token": 1, "value": {"kind": "end"}}, {"token": 1, "value": {"kind": "begin", "title": 5}}),
        {"message": {"a": 1}},
    ],
)
def test_nonsense_changes_nothing(signal: ReadySignal, params: Any) -> None:
    watched = Watched(signal, "x")
    before = watched.state
    for method in ("$/progress", STATUS, LOG):
        watched.notify(method, params)
    assert watched.state == before


def test_a_flood_of_tokens_is_bounded() -> None:
    watched = Watched("progress", "x")
    for token in range(2 * MAX_TOKENS):
        watched.progress("begin", token, title="x")
    for token in range(MAX_TOKENS):
        watched.progress("end", token)
    assert watched.after(1) == "fresh"
