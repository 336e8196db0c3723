"""The manager's own lists, and what a session remembers of the tools it was shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp_types.methods import validate_server_result

from lm_tools_bridge.protocol import names
from lm_tools_bridge.protocol import skills_extension as skills
from manager.answers.lists import LIST_METHODS, fingerprint, own_list, remember_shown
from manager.answers.replies import Plain
from manager.routing.discovery import (
    MANAGER_RESOURCES,
    MANAGER_TEMPLATES,
    MANAGER_TOOLS,
)
from manager.routing.resolution import Claims
from support.clients.exchanges import legacy, session_of, stateless

OWN = {
    "tools/list": ("tools", list(MANAGER_TOOLS)),
    "resources/list": ("resources", list(MANAGER_RESOURCES)),
    "resources/templates/list": ("resourceTemplates", list(MANAGER_TEMPLATES)),
    "prompts/list": ("prompts", []),
    "skills/list": ("skills", []),
}


def result_of(reply: Plain | None) -> dict[str, Any]:
    assert reply is not None
    assert reply.status == 200
    found: dict[str, Any] = json.loads(reply.body)["result"]
    return found


def listing(method: str, **members: Any) -> Any:
    return legacy({"jsonrpc": "2.0", "id": 1, "method": method}, **members)


@pytest.mark.parametrize("method", OWN)
@pytest.mark.parametrize("modern", [False, True])
def test_without_a_workspace_the_lists_are_the_managers_own(method: str, modern: bool) -> None:
    member, entries = OWN[method]
    found = result_of(own_list(stateless(method) if modern else listing(method)))
    assert found[member] == entries
    assert modern or set(found) == {member}
    if method != skills.LIST:  # the official models do not know extensions
        validate_server_result(method, "2026-07-28" if modern else "2025-11-25", found)


@pytest.mark.parametrize("method", OWN)
def test_later_pages_do_not_repeat_the_managers_own_entries(method: str) -> None:
    exchange = legacy({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"cursor": "2"}})
    assert result_of(own_list(exchange)) == {OWN[method][0]: []}


@pytest.mark.parametrize("modern", [False, True])
def test_a_variable_that_the_client_did_not_expand_is_an_issue_of_the_list(modern: bool) -> None:
    claims = Claims(query="${PWD}")
    exchange = stateless("tools/list", claims=claims) if modern else listing("tools/list", claims=claims)
    (issue,) = result_of(own_list(exchange))["_meta"][names.META_ISSUES]
    assert issue["code"] == "VARIABLE_NOT_EXPANDED"
    assert issue["message"] == "the client did not expand ${PWD} in ?cwd= of its address"


def test_all_lists_are_covered() -> None:
    assert set(OWN) == LIST_METHODS


def test_a_session_remembers_which_tools_it_was_shown() -> None:
    session = session_of()
    own_list(listing("resources/list", session=session))
    assert session.shown is None
    own_list(listing("tools/list", session=session))
    assert session.shown == fingerprint([])
    remember_shown(listing("tools/list", session=session), [b"a"])
    assert session.shown == fingerprint([b"a"])
    remember_shown(stateless("tools/list"), [b"a"])  # no session, nothing to remember


def test_lists_that_differ_have_different_fingerprints() -> None:
    lists = [[], [b"a"], [b"b"], [b"a", b"b"], [b"b", b"a"]]
    assert len({fingerprint(one) for one in lists}) == len(lists)
    assert fingerprint([b"a"]) == fingerprint([b"a"])
