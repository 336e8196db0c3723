"""The verb approvals: what waits, answers, and that a person is asked in place."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lm_tools_bridge.approvals import verb as approvals
from manager.configuration.paths import Paths

CALL = {
    "id": "abcd1234", "tool": "run", "client": "codex", "workspace": "shop-1", "root": "/shop",
    "question": "Run run?\npath: \x1b[2Ja", "since": 1, "until": 2, "waits": True,
}  # fmt: skip


def waits(control: Any, *calls: dict[str, Any], ended: list[dict[str, str]] | None = None) -> None:
    control.say("GET /approvals", {"ok": True, "approvals": list(calls), "ended": ended or []})
    control.say("POST /lines", {"ok": True, "lines": []})


def answers(control: Any, outcome: str = "approved", *, counts: bool = True, tool: str = "run") -> None:
    said = {
        "ok": True,
        "counts": counts,
        "outcome": outcome,
        "message": f"{tool} was {outcome}.",
        "approval": {**CALL, "tool": tool},
    }
    control.say("POST /approvals/answer", said)


def posted(control: Any) -> list[Any]:
    return [body for request, body in control.asked if request == "POST /approvals/answer"]


def test_without_a_terminal_the_calls_are_listed(control: Any, run: Any) -> None:
    waits(control, CALL)
    shown = run("approvals").output
    assert "abcd1234" in shown
    assert "\x1b" not in shown
    assert json.loads(run("approvals", "--json").output)["approvals"] == [CALL]
    waits(control)
    assert run("approvals").output == "no call waits for approval\n"


def test_a_call_is_denied_by_its_id(control: Any, run: Any) -> None:
    answers(control, "denied")
    assert run("approvals", "deny", "abcd1234").output == "run was denied.\n"
    assert posted(control) == [{"id": "abcd1234", "approve": False}]


def test_approving_needs_a_terminal_or_the_option(control: Any, run: Any) -> None:
    answers(control)
    refused = run("approvals", "approve", "abcd1234")
    assert refused.exit_code != 0
    assert posted(control) == []
    assert "run was approved." in run("approvals", "approve", "abcd1234", "--yes").output
    assert posted(control) == [{"id": "abcd1234", "approve": True}]


def test_an_answer_that_came_too_late_fails(control: Any, run: Any) -> None:
    answers(control, "gone", counts=False)
    late = run("approvals", "deny", "abcd1234", "--json")
    assert late.exit_code != 0
    assert json.loads(late.output.splitlines()[0])["error"]["reason"] == "not_waiting"


@pytest.mark.parametrize("tool", ["run", "--help"])
def test_always_writes_the_policy(control: Any, run: Any, paths: Paths, tool: str) -> None:
    answers(control, tool=tool)
    shown = run("approvals", "approve", "abcd1234", "--yes", "--always").output
    assert f"{tool} runs without asking from now on, in every project" in shown
    written = tomllib.loads((paths.config_dir / "workspace.toml").read_text())
    assert written["approvals"] == {tool: "allow"}


def test_a_policy_that_cannot_be_written_is_a_failure_that_says_what_was_done(
    control: Any, run: Any, paths: Paths
) -> None:
    answers(control)
    paths.config_dir.mkdir(parents=True, exist_ok=True)
    (paths.config_dir / "workspace.toml").write_text("no toml")
    failed = run("approvals", "approve", "abcd1234", "--yes", "--always")
    assert failed.exit_code != 0
    assert "this call was approved, but run will ask again" in failed.output


FAR = {**CALL, "id": "build:abcd12345678", "host": "build", "root": "ssh://build/shop", "workspace": "shop-2"}


def test_the_host_of_a_call_is_in_every_line(
    control: Any, run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    waits(control, FAR)
    assert "build:abcd1234 " in run("approvals").output
    approvals.ask(FAR, lines("s\n"))
    shown = capsys.readouterr().out
    assert "build:abcd1234  run  of shop-2 on build, called by codex" in shown
    assert "a = always, in every project on build" in shown


def test_always_is_written_on_the_host_of_the_call(control: Any, run: Any, paths: Paths) -> None:
    control.say(
        "POST /approvals/answer",
        {"ok": True, "counts": True, "outcome": "approved", "message": "done", "approval": FAR},
    )
    control.say("POST /tools/change", {"ok": True, "file": "/home/ada/workspace.toml", "host": "ssh://build"})
    shown = run("approvals", "approve", FAR["id"], "--yes", "--always").output
    assert "run runs without asking from now on, in every project on build: /home/ada/workspace.toml" in shown
    assert (
        "POST /tools/change",
        {"cwd": "ssh://build/shop", "tool": "run", "change": "allow"},
    ) in control.asked
    assert not (paths.config_dir / "workspace.toml").exists()


@pytest.mark.parametrize(("tool", "command"), [("run", "run"), ("--help", "-- --help")])
def test_a_policy_that_the_host_did_not_write_is_told_with_the_command(
    control: Any, run: Any, tool: str, command: str
) -> None:
    said = {
        "ok": True,
        "counts": True,
        "outcome": "approved",
        "message": "done",
        "approval": {**FAR, "tool": tool},
    }
    control.say("POST /approvals/answer", said)
    failed = run("approvals", "approve", FAR["id"], "--yes", "--always")
    assert failed.exit_code != 0
    assert f"lmtb tools allow --cwd ssh://build/shop {command}" in failed.output


@pytest.mark.parametrize(("tells", "is_named"), [(True, False), (False, True)])
def test_a_host_whose_manager_does_not_tell_is_named(
    control: Any, run: Any, tells: bool, is_named: bool
) -> None:
    waits(control)
    control.say(
        "POST /lines",
        {"ok": True, "lines": [{"name": "build", "state": "connected", "tellsApprovals": tells}]},
    )
    assert ("projects on build are answered there" in run("approvals").output) is is_named


def lines(*given: str | None) -> Callable[[float], str | None]:
    """A person who thinks (None) and then types."""
    left = iter(given)
    return lambda _: next(left)


@pytest.mark.parametrize(
    ("typed", "expected"), [("y\n", True), ("Y\n", True), ("\n", False), ("n\n", False), ("what\n", False)]
)
def test_only_yes_approves_at_the_terminal(
    control: Any, environ: Any, typed: str, expected: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    waits(control, CALL)
    answers(control)
    approvals.ask(CALL, lines(None, typed))
    assert posted(control) == [{"id": "abcd1234", "approve": expected}]
    shown = capsys.readouterr().out
    assert "path: " in shown
    assert "\x1b[2J" not in shown


def test_a_skipped_call_is_not_answered(control: Any, environ: Any) -> None:
    approvals.ask(CALL, lines("s\n"))
    assert posted(control) == []


def test_the_terminal_is_told_of_an_answer_on_the_page(
    control: Any, environ: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    waits(control, ended=[{"id": "abcd1234", "how": "approved on the page"}])
    approvals.ask(CALL, lines(None))
    assert posted(control) == []
    assert "run: approved on the page" in capsys.readouterr().out


def test_ages_are_seconds(control: Any, run: Any) -> None:
    waits(control, {**CALL, "since": int((time.time() - 90) * 1000)})
    assert "1 min" in run("approvals").output


# a real terminal --------------------------------------------------------------------------------------------


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """Makes standard input a terminal; types, and returns once the terminal has the line."""
    master, slave = pty.openpty()
    with os.fdopen(slave) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(approvals, "LOOK_S", 0.01)

        def type_in(keys: bytes) -> None:
            os.write(master, keys)
            assert select.select([terminal], [], [], 10)[0]

        yield type_in
    os.close(master)


def test_what_was_typed_before_a_call_was_shown_does_not_answer_it(
    control: Any, environ: Any, typed: Callable[[bytes], None]
) -> None:
    waits(control, ended=[{"id": "abcd1234", "how": "approved on the page"}])
    answers(control)
    typed(b"y\n")
    approvals.ask(CALL, approvals.input_line)
    assert posted(control) == []


def test_of_several_pasted_lines_only_the_first_answers(
    control: Any, environ: Any, typed: Callable[[bytes], None]
) -> None:
    waits(control, ended=[{"id": "next", "how": "approved on the page"}])
    answers(control)

    def pasted(seconds: float) -> str | None:
        typed(b"s\ny\ny\n")
        return approvals.input_line(seconds)

    approvals.ask(CALL, pasted)
    approvals.ask({**CALL, "id": "next"}, approvals.input_line)
    assert posted(control) == []


def test_hosts_whose_calls_are_answered_there_are_named(run: Any, control: Any) -> None:
    waits(control)
    lines = [{"name": "build", "state": "connected"}, {"name": "away", "state": "failed"}]
    control.say("POST /lines", {"ok": True, "lines": lines})
    said = run("approvals").output
    assert "no call waits for approval" in said
    assert "Calls of projects on build are answered there" in said
    assert "away" not in said
