"""The order in which a request's claims are asked."""

from __future__ import annotations

import itertools

import pytest

from manager.routing.workspace.resolution import Claim, Claims, WorkspaceSource, conflicting_workspaces

ALL = Claims(
    path="w-path", argument_workspace="w-arg", argument_cwd="/arg", session="w-bound", query="/q", header="/h"
)


def test_explicit_claims_are_path_then_handle_then_folder() -> None:
    """Rungs 1 and 2."""
    assert ALL.explicit_claims() == (
        Claim(WorkspaceSource.PATH, "w-path", is_id=True),
        Claim(WorkspaceSource.ARGUMENT, "w-arg", is_id=True),
        Claim(WorkspaceSource.ARGUMENT, "/arg"),
    )


def test_the_binding_is_no_explicit_claim() -> None:
    """Rung 3: "explicit" is what was said in this very request."""
    claims = Claims(session="w-bound")
    assert claims.explicit_claims() == ()
    assert claims.session_claim() == Claim(WorkspaceSource.SESSION, "w-bound", is_id=True)


def test_the_query_is_asked_before_the_header() -> None:
    assert ALL.ambient_claims() == (Claim(WorkspaceSource.QUERY, "/q"), Claim(WorkspaceSource.HEADER, "/h"))


def test_silence_makes_no_claim() -> None:
    claims = Claims()
    assert (claims.explicit_claims(), claims.session_claim(), claims.ambient_claims()) == ((), None, ())


def test_an_argument_of_the_wrong_type_is_still_a_claim() -> None:
    """So that it can be refused instead of being overheard."""
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
def test_a_disagreement_names_both(workspaces: list[str], conflict: tuple[str, str] | None) -> None:
    """47110."""
    assert conflicting_workspaces(workspaces) == conflict


@pytest.mark.parametrize("workspaces", list(itertools.product("ab", repeat=3)))
def test_any_difference_is_a_disagreement(workspaces: tuple[str, ...]) -> None:
    assert (conflicting_workspaces(workspaces) is not None) is (len(set(workspaces)) > 1)


def test_sources_are_spelt_as_the_response_header_says_them() -> None:
    assert {source.value for source in WorkspaceSource} <= {
        "path", "argument", "session", "query", "header", "codex", "roots", "none",
    }  # fmt: skip
