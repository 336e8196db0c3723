"""Tests of the order of the claims in workspace resolution."""

from __future__ import annotations

import itertools

import pytest

from manager.routing.workspace.resolution import Claim, Claims, WorkspaceSource, conflicting_workspaces

ALL = Claims(
    path="w-path", argument_workspace="w-arg", argument_cwd="/arg", session="w-bound", query="/q", header="/h"
)


def test_explicit_claims_are_path_then_workspace_then_cwd() -> None:
    """Steps 1 and 2 of workspace resolution."""
    assert ALL.explicit_claims() == (
        Claim(WorkspaceSource.PATH, "w-path", is_id=True),
        Claim(WorkspaceSource.ARGUMENT, "w-arg", is_id=True),
        Claim(WorkspaceSource.ARGUMENT, "/arg"),
    )


def test_the_session_binding_is_no_explicit_claim() -> None:
    """Step 3: only claims of the request itself are explicit."""
    claims = Claims(session="w-bound")
    assert claims.explicit_claims() == ()
    assert claims.session_claim() == Claim(WorkspaceSource.SESSION, "w-bound", is_id=True)


def test_the_query_precedes_the_header() -> None:
    assert ALL.ambient_claims() == (Claim(WorkspaceSource.QUERY, "/q"), Claim(WorkspaceSource.HEADER, "/h"))


def test_an_empty_request_makes_no_claim() -> None:
    claims = Claims()
    assert (claims.explicit_claims(), claims.session_claim(), claims.ambient_claims()) == ((), None, ())


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
        "path", "argument", "session", "query", "header", "codex", "roots", "none",
    }  # fmt: skip
