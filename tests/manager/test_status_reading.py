"""Tests of how answers of servers are read, which other programs may have written."""

from __future__ import annotations

from typing import Any

import pytest

from manager.attention import MAX_NAME, attention_items
from manager.cli.output.overview import problems
from manager.status_reading import (
    group_worktrees,
    json_object,
    merged_workspaces,
    problems_by_repository,
    project_names,
    shell_hint,
    source_step,
)


@pytest.mark.parametrize(
    "answer", [b"", b"<html>", b"[1]", b"7", b'{"a": "\xff"}', b'{"a": 1} 2', b'{"a":' * 100_000]
)
def test_what_is_no_object_is_told_apart(answer: bytes) -> None:
    assert json_object(answer) is None


def test_an_object_is_read() -> None:
    assert json_object(b'{"ok": true}') == {"ok": True}


SOURCE = {"id": "stdio:s", "state": "backoff", "lacking": ["SERVICE_TOKEN", "OTHER_TOKEN"]}


def test_a_variable_that_only_the_shell_has_comes_with_the_lines_to_add() -> None:
    assert shell_hint(SOURCE, {"SERVICE_TOKEN": "canary"}) == (
        '"stdio:s" asked for SERVICE_TOKEN, which this shell has and the manager has not: export it where your'
        ' login shell reads it, add to its entry env = { SERVICE_TOKEN = "${SERVICE_TOKEN}" }, and run: lmtb'
        " restart --servers"
    )


@pytest.mark.parametrize(
    ("source", "shell"),
    [
        (SOURCE, {"HOME": "/"}),
        ({**SOURCE, "state": "ready"}, {"SERVICE_TOKEN": "x"}),
        ({**SOURCE, "lacking": []}, {"SERVICE_TOKEN": "x"}),
        ({"id": "builtin", "state": "failed"}, {"SERVICE_TOKEN": "x"}),
    ],
)
def test_otherwise_nothing_is_said(source: dict[str, object], shell: dict[str, str]) -> None:
    assert shell_hint(source, shell) is None


ALL = {"file": ".mcp.json", "names": [], "allBut": True}
OWN = {
    "claude-code": ALL,
    "codex": {**ALL, "file": ".codex/config.toml"},
    "my-agent": {"file": ".mcp.json", "names": ["docs"], "allBut": False},
    "careful": {"file": ".mcp.json", "names": ["docs"], "allBut": True},
}


def status(client: str, workspace: str, file: str | None) -> dict[str, Any]:
    sources = [{"id": "stdio:docs", "namespace": "docs", "state": "ready", "file": file}]
    return {
        "clientDetails": [
            {"name": client, "workspace": workspace, "ownServers": [OWN[client]]},
            {"name": None},
        ],
        "instanceDetails": [{"workspace": "p-1", "root": "/p", "state": "ready", "sources": sources}],
    }


def test_a_client_that_was_seen_and_starts_a_server_itself_is_a_problem() -> None:
    assert problems(status("claude-code", "p-1", ".mcp.json")) == [
        'p-1: Claude Code starts "docs" of .mcp.json itself, so it runs twice; run each once: lmtb adopt'
    ]


def test_a_client_whose_files_the_user_named_is_a_problem_as_well() -> None:
    (problem,) = problems(status("my-agent", "p-1", ".mcp.json"))
    assert problem.startswith('p-1: my-agent starts "docs" of .mcp.json itself')


@pytest.mark.parametrize(
    ("client", "workspace", "file"),
    [
        ("claude-code", "q-2", ".mcp.json"),
        ("claude-code", "p-1", None),
        ("codex", "p-1", ".mcp.json"),
        ("careful", "p-1", ".mcp.json"),
    ],
    ids=["seen elsewhere", "our own file", "a file of another client", "refused by its user"],
)
def test_other_servers_run_once(client: str, workspace: str, file: str | None) -> None:
    assert problems(status(client, workspace, file)) == []


def status_of_attention(**server: Any) -> dict[str, Any]:
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
    found = attention_items({**status_of_attention(sources=sources, issues=issues), "approvals": [CALL]})
    assert [(one.kind, one.text, one.next_step) for one in found] == [
        ("approval", "run waits for your approval, in shop-1, called by codex", "lmtb approvals"),
        ("failed", "stdio:git of shop-1 has failed", "lmtb servers"),
        ("login", "remote:mail of shop-1 needs you to sign in", "lmtb servers"),
        ("trust", "1 item waits for your trust in shop-1", "lmtb trust"),
    ]
    assert "s3cret" not in str(found)
    assert len({one.key for one in found}) == 4


def test_a_server_that_does_not_work_waits_for_a_person() -> None:
    (found,) = attention_items(status_of_attention(state="crash_looping"))
    assert found.text == "the server of shop-1 does not work"


def test_hostile_names_stay_on_one_line_and_are_cut() -> None:
    hostile = {**CALL, "tool": "a\x1b[2J\n\u202eb" + "x" * 200}
    (found,) = attention_items({"approvals": [hostile]})
    assert found.text.isprintable()
    assert found.text.startswith("a?[2J??b")
    assert len(found.text.partition(" waits")[0]) == MAX_NAME


def test_nothing_waits_in_a_status_of_an_older_manager() -> None:
    assert attention_items({}) == []


def test_the_host_of_a_call_is_said() -> None:
    (found,) = attention_items({"approvals": [{**CALL, "host": "build"}]})
    assert found.text == "run waits for your approval, in shop-1 on build, called by codex"


def test_names_of_projects_have_no_hash_unless_two_are_called_so() -> None:
    shop, blog, other_blog = "shop-5b0a4815548c", "my-blog-0123456789ab", "my-blog-ba9876543210"
    assert project_names([shop, blog, other_blog]) == {shop: "shop", blog: blog, other_blog: other_blog}


def test_names_that_only_look_like_ids_stay() -> None:
    names = ["shop", "shop-5b0a4815548c", "a-deadbeef", "-5b0a4815548c", ""]
    assert project_names(names) == {name: name for name in names}


@pytest.mark.parametrize(
    ("signs_in", "first"),
    [
        ({}, "sign in with: "),
        ({"signsIn": True}, "sign in with: "),
        ({"signsIn": False}, "give its entry a valid"),
    ],
    ids=["an older server", "OAuth", "a token"],
)
def test_nobody_is_sent_to_a_login_that_is_refused(signs_in: dict[str, Any], first: str) -> None:
    source = {"id": "remote:docs", "state": "auth_required", **signs_in}
    step = source_step(source, "/shop")
    assert step.startswith(first)
    assert ('"oauth": {}' in step) == (signs_in.get("signsIn") is False)


def repository_rows(*folders: str, **members: Any) -> dict[str, Any]:
    """A status in which these folders are working trees of the repository at `/shop`."""
    details = [
        {"id": folder.rpartition("/")[2], "root": folder, "repository": "/shop/.git", "state": "ready"}
        for folder in folders
    ]
    instances = [{"workspace": row["id"], "root": row["root"], "pid": 1, **members} for row in details]
    return {"workspaceDetails": details, "instanceDetails": instances}


PENDING = [{"code": "TRUST_PENDING", "message": "a", "details": "lmtb trust /shop"}]


def test_worktrees_stand_below_the_main_tree_of_their_repository() -> None:
    status = repository_rows("/x/b", "/shop", "/x/a")
    status["workspaceDetails"].insert(1, {"id": "blog", "root": "/blog"})
    groups = group_worktrees(merged_workspaces(status))
    assert [[row["workspace"] for row in group] for group in groups] == [["shop", "b", "a"], ["blog"]]


def test_what_all_worktrees_wait_for_is_told_once() -> None:
    status = repository_rows(*(f"/x/tree-{number}" for number in range(19)), "/shop", issues=PENDING)
    rows = merged_workspaces(status)
    ((who, problem),) = problems_by_repository(rows, {"shop": "shop"})
    assert (who, problem.text) == ("shop and 19 other worktrees", "1 item waits for your trust")
    assert problem.next_step == "review with: lmtb trust /shop"
    assert [item.text for item in attention_items(status)] == [
        "1 item waits for your trust in shop and 19 other worktrees"
    ]


def test_what_differs_between_worktrees_is_told_of_each() -> None:
    status = repository_rows("/shop", "/x/a", issues=PENDING)
    status["instanceDetails"][1]["issues"] = [*PENDING, {**PENDING[0], "message": "b"}]
    rows = merged_workspaces(status)
    texts = [(who, problem.text) for who, problem in problems_by_repository(rows, {})]
    assert texts == [("shop", "1 item waits for your trust"), ("a", "2 items wait for your trust")]
    assert len(attention_items(status)) == 2
