"""Tests of what counts among the claims of a request, and of how evidence is weighed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from manager.routing.resolution import (
    CODE,
    Claim,
    Claims,
    Contradiction,
    Decided,
    Finding,
    Undecided,
    WorkspaceSource,
    conflicting_workspaces,
    issues_of,
    unexpanded,
    weigh,
)

ALL = Claims(
    path="w-path", argument_workspace="w-arg", argument_cwd="/arg", session="w-bound", query="/q", header="/h"
)
NO_FOLDER = Refusal(Reason.INVALID_CWD, "cwd is missing")
SILENT = Refusal(Reason.INVALID_CWD, "cwd gave no answer", details={"problem": "no_answer"})
BUSY = Refusal(Reason.OVERLOADED, "too many folders do not answer", details={"problem": "busy"})
NO_PROJECT = Refusal(Reason.WORKSPACE_NOT_MATCHED, "workspace not matched")


def test_explicit_claims_are_path_then_workspace_then_cwd() -> None:
    assert ALL.explicit_claims() == (
        Claim(WorkspaceSource.PATH, "w-path", is_id=True),
        Claim(WorkspaceSource.ARGUMENT, "w-arg", is_id=True),
        Claim(WorkspaceSource.ARGUMENT, "/arg"),
    )


def test_a_pinned_folder_is_explicit_and_no_evidence() -> None:
    claims = Claims(query="/q", header="/h", pinned=True)
    assert claims.explicit_claims() == (Claim(WorkspaceSource.QUERY, "/q"),)
    assert claims.evidence() == (Claim(WorkspaceSource.HEADER, "/h"),)
    assert claims.names_workspace()


def test_the_session_binding_stands_but_is_not_explicit() -> None:
    """Only claims of the request itself are explicit."""
    claims = Claims(session="w-bound")
    assert claims.explicit_claims() == ()
    assert claims.standing_claims() == (Claim(WorkspaceSource.SESSION, "w-bound", is_id=True),)


def test_evidence_comes_strongest_first() -> None:
    claims = Claims(query="/q", header="/h", codex="/c", roots=("file:///1", "file:///2"))
    assert [claim.text for claim in claims.evidence()] == ["/c", "file:///1", "file:///2", "/q", "/h"]


@pytest.mark.parametrize("text", ["vscode-remote://ssh/a", "https://host/a", "/a"])
def test_a_uri_of_an_editor_is_no_address_on_another_host(text: str) -> None:
    assert len(Claims(query=text, codex="/c").evidence()) == 2
    assert not Claims(header=text).names_workspace()


@pytest.mark.parametrize("remote", ["ssh://ada@build/srv/app", "build:/srv/app"])
def test_the_address_of_a_project_on_another_host_stands_alone(remote: str) -> None:
    """A person wrote it: no process has such a working folder."""
    assert Claims(query=remote, codex="/c", roots=("file:///1",)).evidence() == (
        Claim(WorkspaceSource.QUERY, remote),
    )
    assert Claims(header=remote, query="/q").evidence() == (Claim(WorkspaceSource.HEADER, remote),)
    assert Claims(query=remote).names_workspace()


def test_an_empty_request_makes_no_claim() -> None:
    claims = Claims()
    assert (claims.explicit_claims(), claims.standing_claims(), claims.evidence()) == ((), (), ())
    assert not claims.names_workspace()


def test_an_argument_of_the_wrong_type_is_still_a_claim() -> None:
    """So it is refused and not ignored."""
    assert Claims(argument_cwd=7).explicit_claims() == (Claim(WorkspaceSource.ARGUMENT, 7),)
    assert Claims(argument_workspace=0).explicit_claims() == (Claim(WorkspaceSource.ARGUMENT, 0, is_id=True),)


@pytest.mark.parametrize(
    ("workspaces", "conflict"),
    [
        ([], None),
        (["a"], None),
        (["a", "a", "a"], None),
        (["a", "b"], ("a", "b")),
        (["a", "a", "c"], ("a", "c")),
    ],
)
def test_a_conflict_names_both_workspaces(workspaces: list[str], conflict: tuple[str, str] | None) -> None:
    """They are in the refusal 47110."""
    assert conflicting_workspaces(workspaces) == conflict


@pytest.mark.parametrize("workspaces", list(itertools.product("ab", repeat=3)))
def test_any_difference_is_a_conflict(workspaces: tuple[str, ...]) -> None:
    assert (conflicting_workspaces(workspaces) is not None) is (len(set(workspaces)) > 1)


def test_sources_are_the_values_of_the_response_header() -> None:
    assert {source.value for source in WorkspaceSource} <= {
        "path", "argument", "session", "state", "query", "header", "codex", "roots", "paths", "none",
    }  # fmt: skip


# -- weighing -----------------------------------------------------------------------------------------------

_SOURCES = {
    "c": WorkspaceSource.CODEX,
    "r": WorkspaceSource.ROOTS,
    "q": WorkspaceSource.QUERY,
    "h": WorkspaceSource.HEADER,
}


def finding(word: str) -> Finding:
    """`rA`: a root in project A; `rA/sub`: in a folder of it; `r?`: no such folder, `r-`: in no project."""
    source, place = _SOURCES[word[0]], word[1:]
    claim = Claim(source, f"/{place}")
    if place == "?":
        return Finding(claim, "/gone", None, NO_FOLDER)
    if place in "!*":
        return Finding(claim, "/silent", None, SILENT if place == "!" else BUSY)
    if place == "-":
        return Finding(claim, "/tmp/x", None, NO_PROJECT)
    if place == "/":
        return Finding(claim, "/", None, NO_PROJECT)
    return Finding(claim, f"/{place}", place[0])


def verdict(words: str) -> str:
    """`A by q`: decided; `A by r over q`: with what was overruled; `x`: a contradiction; `0`: undecided."""
    outcome = weigh([finding(word) for word in words.split()])
    if isinstance(outcome, Contradiction):
        return f"x {outcome.first.place} {outcome.second.place}"
    if isinstance(outcome, Undecided):
        places = [each.place for each in outcome.candidates]
        return " ".join(["0", *([outcome.miss.place] if outcome.miss else []), *places])
    over = " ".join(letter for letter, source in _SOURCES.items() if source in _overruled(outcome))
    text = f"{outcome.finding.workspace} by {_letter(outcome.finding)}"
    return f"{text} over {over}" if over else text


def _letter(found: Finding) -> str:
    return next(letter for letter, source in _SOURCES.items() if source is found.claim.source)


def _overruled(decided: Decided) -> Sequence[WorkspaceSource]:
    return [each.claim.source for each in decided.overruled]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "0"),
        # one kind of evidence alone
        ("qA", "A by q"),
        ("hA", "A by h"),
        ("cA", "A by c"),
        ("rA", "A by r"),
        ("q?", "0 /gone"),
        ("q-", "0 /tmp/x"),
        ("r-", "0 /tmp/x"),
        # agreement: the address decides, as without the other
        ("qA hA", "A by q"),
        ("cA hA", "A by h"),
        ("rA qA", "A by q"),
        ("rA/sub qA", "A by q"),
        ("rA rB qB", "B by q"),
        ("cA rA qA", "A by q"),
        # where the client works is stronger than where its process was started
        ("cB hA", "B by c over h"),
        ("rB qA", "B by r over q"),
        ("rB qA hA", "B by r over q h"),
        ("rA qA hB", "A by q over h"),
        ("rB q-", "B by r over q"),
        ("rB q?", "B by r over q"),
        ("cA rA rB", "A by c"),
        # nothing is sure: refused, both named
        ("qA hB", "x /A /B"),
        ("qA h-", "x /A /tmp/x"),
        ("q- hA", "x /tmp/x /A"),
        ("r- qA", "x /tmp/x /A"),
        ("r? qA", "x /gone /A"),
        ("c- hA", "x /tmp/x /A"),
        ("rA rB qC", "x /A /C"),
        ("cA rB", "x /A /B"),
        ("cA rB qA", "x /A /B"),
        ("cA r-", "x /A /tmp/x"),
        ("c- rA", "x /tmp/x /A"),
        ("c- r-", "0 /tmp/x"),
        ("rA rB", "0 /A /B"),
        # the disk did not answer: it may be anything
        ("r! qA", "0 /silent"),
        ("r! rB qA", "0 /silent"),
        ("r* qA", "0 /silent"),
        ("q! hA", "0 /silent"),
        ("qA h*", "0 /silent"),
        ("cA h!", "A by c over h"),
        # what says nothing does not count
        ("q? hA", "A by h"),
        ("qA h?", "A by q"),
        ("r/ qA", "A by q"),
        ("r/", "0"),
        ("r/ rB qA", "B by r over q"),
    ],
)
def test_evidence_is_weighed(words: str, expected: str) -> None:
    assert verdict(words) == expected


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("rA/web qA", "/A/web"),
        ("qA/web", "/A/web"),
        ("cA/web hA", "/A/web"),
        ("rA/web rA/api qA/api", "/A/api"),
    ],
)
def test_the_folder_comes_from_what_knows_best_where_the_client_works(words: str, place: str) -> None:
    outcome = weigh([finding(word) for word in words.split()])
    assert isinstance(outcome, Decided)
    assert outcome.folder_of.place == place


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("rB qA", WorkspaceSource.QUERY),
        ("cB hA", WorkspaceSource.HEADER),
        ("rB", None),
        ("rB q?", None),
    ],
)
def test_an_overruled_address_is_still_how_the_client_addressed_us(
    words: str, address: WorkspaceSource | None
) -> None:
    """So the client sees the same kind of list, whatever decides."""
    outcome = weigh([finding(word) for word in words.split()])
    assert isinstance(outcome, Decided)
    assert outcome.addressed_by is address


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
