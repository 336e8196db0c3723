"""What a client sent with variables in place of their values is named, and counts as not sent."""

from __future__ import annotations

from manager.routing.workspace.resolution import Claims
from manager.routing.workspace.unexpanded import CODE, issues_of, unexpanded


def test_each_place_with_a_variable_is_an_issue() -> None:
    claims = Claims(query="${PWD}", header="$PWD", codex="/a", roots=("/b", "file:///c"))
    assert [issue.message for issue in issues_of(claims)] == [
        "the client did not expand ${PWD} in ?cwd= of its address",
        "the client did not expand $PWD in its header X-Workspace-Cwd",
    ]
    assert {(issue.level, issue.category, issue.code) for issue in issues_of(claims)} == {
        ("warning", "workspace", CODE)
    }


def test_folders_and_nothing_are_no_issues() -> None:
    assert issues_of(Claims()) == []
    assert issues_of(Claims(path="ws-1", query="/a", header="/b", codex="file:///c", roots=("/d",))) == []


def test_the_texts_that_status_shows_are_read_in_the_same_way() -> None:
    sent = Claims(query="${workspaceFolder}/api", roots=("${PWD}",), path="${PWD}").shown_texts()
    assert list(unexpanded(sent)) == [
        "the client did not expand ${workspaceFolder} in ?cwd= of its address",
        "the client did not expand ${PWD} in its roots",
    ]
