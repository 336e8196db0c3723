"""What of a status waits for a person, in words that are safe in a notification."""

from __future__ import annotations

from typing import Any

from manager.status_reading.attention import MAX_NAME, attention


def status(**server: Any) -> dict[str, Any]:
    known = {"id": "shop-1", "root": "/shop"}
    row = {"workspace": "shop-1", "root": "/shop", "state": "ready", "pid": 7, **server}
    return {"workspaceDetails": [known], "instanceDetails": [row]}


CALL = {"id": "abc", "tool": "run", "workspace": "shop-1", "client": "codex", "question": "token: s3cret"}


def test_approvals_trust_logins_and_failures_wait_for_a_person() -> None:
    sources = [
        {"id": "stdio:git", "state": "failed", "error": "token=s3cret"},
        {"id": "remote:mail", "state": "auth_required"},
        {"id": "stdio:ok", "state": "ready"},
        {"id": "stdio:soon", "state": "backoff"},
    ]
    issues = [{"code": "TRUST_PENDING", "message": "s3cret", "details": "lmtb trust /shop"}]
    found = attention({**status(sources=sources, issues=issues), "approvals": [CALL]})
    assert [(one.kind, one.text, one.next_step) for one in found] == [
        ("approval", "run waits for your approval, in shop-1, called by codex", "lmtb approvals"),
        ("failed", "stdio:git of shop-1 has failed", "lmtb servers"),
        ("login", "remote:mail of shop-1 needs you to sign in", "lmtb servers"),
        ("trust", "1 item waits for your trust in shop-1", "lmtb trust"),
    ]
    assert "s3cret" not in str(found)
    assert len({one.key for one in found}) == 4


def test_a_server_that_does_not_work_waits_for_a_person() -> None:
    (found,) = attention(status(state="crash_looping"))
    assert found.text == "the server of shop-1 does not work"


def test_hostile_names_stay_on_one_line_and_are_cut() -> None:
    hostile = {**CALL, "tool": "a\x1b[2J\n\u202eb" + "x" * 200}
    (found,) = attention({"approvals": [hostile]})
    assert found.text.isprintable()
    assert found.text.startswith("a?[2J??b")
    assert len(found.text.partition(" waits")[0]) == MAX_NAME


def test_nothing_waits_in_a_status_of_an_older_manager() -> None:
    assert attention({}) == []


def test_the_host_of_a_call_is_said() -> None:
    (found,) = attention({"approvals": [{**CALL, "host": "build"}]})
    assert found.text == "run waits for your approval, in shop-1 on build, called by codex"
