"""What needs a person, found in a status."""

from __future__ import annotations

from typing import Any

from lm_tools_bridge.page.needs import needs
from lm_tools_bridge.terminal.views import Tone


def status(**members: Any) -> dict[str, Any]:
    return {"degraded": [], "installation": {"state": "current"}, "workspaceDetails": [], **members}


def server(**members: Any) -> dict[str, Any]:
    return {
        "workspace": "app-1",
        "root": "/home/ann/app",
        "state": "ready",
        "pid": 7,
        "sources": [],
        **members,
    }


def with_server(**members: Any) -> dict[str, Any]:
    known = {"id": "app-1", "root": "/home/ann/app"}
    return status(workspaceDetails=[known], instanceDetails=[server(**members)])


def test_nothing_is_needed_where_all_is_well() -> None:
    assert needs(with_server()) == []


def test_trouble_of_the_manager_comes_first_with_the_next_step() -> None:
    found = needs({**with_server(sources=[]), "degraded": ["the disk of the state is full"]})
    assert [(one.tone, one.text, one.next_step) for one in found] == [
        (Tone.BAD, "The disk of the state is full", "lmtb doctor")
    ]


def test_a_source_that_is_down_can_be_tried_again() -> None:
    failed = {"id": "stdio:git", "kind": "stdio", "state": "failed", "error": "exit code 1"}
    (found,) = needs(with_server(sources=[failed]))
    assert found.text == "stdio:git cannot be started or reached: exit code 1"
    assert found.project == "app-1"
    assert found.action is not None
    assert (found.action.name, dict(found.action.members)) == (
        "retry-source",
        {"root": "/home/ann/app", "source": "stdio:git"},
    )


def test_sources_with_similar_names_have_buttons_of_their_own() -> None:
    down = [
        {"id": name, "kind": "stdio", "state": "failed", "error": "gone"}
        for name in ("stdio:git", "stdio:git-2")
    ]
    found = needs(with_server(sources=down))
    assert sorted(dict(one.action.members)["source"] for one in found if one.action) == [
        "stdio:git",
        "stdio:git-2",
    ]


def test_a_crash_loop_shows_the_last_words_of_the_server() -> None:
    known = {
        "id": "app-1",
        "root": "/home/ann/app",
        "state": "crash_looping",
        "lastError": "exit code 3",
        "stderrTail": ["one", "two", "three", "ImportError: x"],
    }
    (found,) = needs(status(workspaceDetails=[known]))
    assert found.words == ("two", "three", "ImportError: x")
    assert found.tone is Tone.BAD


def test_waiting_trust_names_the_command_and_has_no_button() -> None:
    issue = {"code": "TRUST_PENDING", "message": "script tool: greet", "details": "lmtb trust /home/ann/app"}
    (found,) = needs(with_server(issues=[issue]))
    assert "lmtb trust /home/ann/app" in found.next_step
    assert found.action is None


def test_a_changed_installation_offers_a_restart() -> None:
    (found,) = needs(status(installation={"state": "changed", "version": "9"}))
    assert found.action is not None
    assert found.action.name == "restart-manager"


def test_faults_come_before_things_that_can_wait() -> None:
    issue = {"code": "TRUST_PENDING", "message": "script tool: greet", "details": "lmtb trust"}
    failed = {"id": "stdio:git", "kind": "stdio", "state": "failed", "error": "exit code 1"}
    found = needs(with_server(issues=[issue], sources=[failed]))
    assert [one.tone for one in found] == [Tone.BAD, Tone.WARN]


def test_a_call_that_waits_for_approval_comes_first_with_its_arguments_and_three_buttons() -> None:
    call = {
        "id": "abcd1234", "tool": "run", "client": "codex", "workspace": "app-1",
        "question": "Run run?\npath: a",
    }  # fmt: skip
    first, *_ = needs({**with_server(), "degraded": ["the disk is full"], "approvals": [call]})
    assert first.text == "run waits for your approval, called by codex."
    assert (first.project, first.words, first.next_step) == (
        "app-1",
        ("Run run?", "path: a"),
        "lmtb approvals",
    )
    assert first.action is not None
    buttons = [first.action, *first.more_actions]
    assert [dict(one.members)["answer"] for one in buttons] == ["once", "always", "deny"]
    assert {dict(one.members)["id"] for one in buttons} == {"abcd1234"}


def test_a_server_that_wants_a_login_has_a_button_to_sign_in() -> None:
    down = {"id": "remote:tickets", "kind": "remote", "state": "auth_required", "error": "sign in first"}
    (found,) = needs(with_server(sources=[down]))
    assert found.action is not None
    assert (found.action.name, found.action.label) == ("sign-in", "Sign in")
    assert found.next_step.startswith("sign in with: lmtb servers login tickets ")


def test_a_server_that_crashes_again_and_again_can_be_started_again() -> None:
    known = {"id": "app-1", "root": "/home/ann/app", "state": "crash_looping", "lastError": "exit code 3"}
    (found,) = needs(status(workspaceDetails=[known]))
    assert found.action is not None
    assert (found.action.name, dict(found.action.members)) == ("start-server", {"root": "/home/ann/app"})


def test_a_source_that_failed_is_shown_with_its_last_words() -> None:
    failed = {
        "id": "stdio:git",
        "kind": "stdio",
        "state": "failed",
        "error": "exit code 1",
        "stderr": list("abcd"),
    }
    (found,) = needs(with_server(sources=[failed]))
    assert found.words == ("b", "c", "d")
    (found,) = needs(with_server(sources=[{**failed, "error": "it wrote: b c d"}]))
    assert found.words == ()


def test_what_waits_for_trust_leads_to_its_difference() -> None:
    issue = {"code": "TRUST_PENDING", "message": "script tool: greet", "details": "lmtb trust /home/ann/app"}
    (found,) = needs(with_server(issues=[issue]))
    assert (found.page, found.action) == ("trust", None)


def test_the_host_of_a_call_that_waits_is_said_in_its_line_and_its_buttons() -> None:
    call = {
        "id": "build:abcd12345", "tool": "run<b>", "client": "codex", "workspace": "app-1", "host": "build",
        "question": "Run run?",
    }  # fmt: skip
    (found,) = needs({"approvals": [call]})
    assert found.text == "run<b> waits for your approval on build, called by codex."
    assert found.action is not None
    assert found.action.about == "run<b>, build:abcd1234"
    assert found.more_actions[0].label == "Always allow this tool, in every project on build"


def test_one_signs_in_on_the_host_of_the_project() -> None:
    down = {"id": "remote:tickets", "kind": "remote", "state": "auth_required", "error": "sign in first"}
    (found,) = needs(with_server(sources=[down], root="ssh://build/srv/app"))
    assert found.action is not None
    assert found.action.name == "retry-source"
    assert "at a terminal there, with: lmtb servers login tickets --cwd /srv/app" in found.next_step
