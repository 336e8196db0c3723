"""Prompts, resources and templates of all sources are merged."""

from __future__ import annotations

from typing import Any

import pytest

from support.servers.mcp_sources.tool_source import ScriptedSource, offerings
from workspace_server.catalog import offerings as merged
from workspace_server.catalog.offerings import MAX_NAMED, merge
from workspace_server.tool import Entry, SourceOfferings


def source(namespace: str, **offered: Any) -> ScriptedSource:
    made = ScriptedSource(identity=f"stdio:{namespace}", namespace=namespace)
    made.offered = offerings(**offered)
    return made


def test_prompts_are_named_like_tools_and_resources_keep_their_uris() -> None:
    first = source("git-hub", prompts=["b.c", "a"], resources=["x://b", "x://A"], templates=["x://{t}"])
    second = source("other", prompts=["a"], resources=["x://a"])
    second.separator = "-"
    found = merge([first, second])
    assert [one.name for one in found.prompts] == ["git-hub__a", "git-hub__b_c", "other-a"]
    assert [one.definition for one in found.prompts] == [{"name": one.name} for one in found.prompts]
    assert [one.name for one in found.resources] == ["x://A", "x://a", "x://b"]
    assert [one.name for one in found.templates] == ["x://{t}"]
    prompt = found.prompt("git-hub__b_c")
    assert prompt is not None
    assert (prompt.entry.original, prompt.source) == ("b.c", first)
    assert found.owner("x://a") is second
    assert found.issues == ()


def test_every_member_of_a_definition_stays() -> None:
    made = source("s")
    definition = {
        "name": "p",
        "title": "P",
        "arguments": [{"name": "x", "y": 1}],
        "icons": [],
        "vendor": None,
    }
    listed = {"uri": "x://a", "name": "n", "size": 2**60, "annotations": {"z": 1.5}}
    made.offered = SourceOfferings((Entry("p", definition, "p"),), (Entry("x://a", listed, "x://a"),))
    found = merge([made])
    assert found.prompts[0].definition == {**definition, "name": "s__p"}
    assert found.resources[0].definition == listed


def test_the_first_source_in_order_answers_for_a_uri_that_two_offer() -> None:
    """One issue for all that two sources share."""
    uris = [f"x://{n}" for n in range(MAX_NAMED + 2)]
    first, second = source("a", resources=uris), source("b", resources=[*uris, "x://own"])
    found = merge([second, first])
    assert {one.source.id for one in found.resources} == {"stdio:b"}
    (issue,) = found.issues
    assert (issue.level, issue.code, issue.details) == ("warning", "RESOURCE_URI_CLASH", "source stdio:a")
    assert issue.message == (
        'Sources "stdio:b" and "stdio:a" offer the same URIs; the first one answers: '
        "x://0, x://1, x://2, x://3, x://4 and 2 more"
    )


def test_two_templates_of_one_text_are_the_first_ones() -> None:
    first, second = source("a", templates=["x://{t}"]), source("b", templates=["x://{t}"])
    found = merge([first, second])
    assert [(one.name, one.source) for one in found.templates] == [("x://{t}", first)]
    assert [issue.code for issue in found.issues] == ["RESOURCE_URI_CLASH"]


@pytest.mark.parametrize("uri", ["lm-tools://names", "lm-tools://tool/calculator", "lm-tools://new/{x}"])
def test_no_source_can_claim_our_own_uris(uri: str) -> None:
    found = merge([source("a", resources=[uri, "x://b"], templates=[uri])])
    assert [one.name for one in found.resources] == ["x://b"]
    assert found.templates == ()
    assert [issue.code for issue in found.issues] == ["RESOURCE_URI_RESERVED"] * 2


def test_prompts_of_one_name_have_different_ones_here() -> None:
    """The same rules as for tools."""
    first, second = ScriptedSource(identity="stdio:a"), ScriptedSource(identity="stdio:b")
    for one in (first, second):
        one.offered = offerings(["tool_search"])
    found = merge([second, first])
    assert [(one.name, one.source) for one in found.prompts] == [
        ("stdio_b__tool_search", second),
        ("tool_search", first),
    ]
    assert [issue.code for issue in found.issues] == ["PROMPT_NAME_CLASH"]


@pytest.mark.parametrize("default", ["off", "exposed"])
def test_a_source_whose_tools_are_off_offers_nothing_else_either(default: Any) -> None:
    made = source("a", prompts=["p"], resources=["x://r"], templates=["{t}"])
    made.default = default
    found = merge([made])
    assert (found.prompts, found.resources, found.templates, found.sources) == ((), (), (), ())


def test_templates_find_their_sources_in_the_order_of_the_sources() -> None:
    first, second = source("b", templates=["x://{a}/1"]), source("a", templates=["x://{+a}"])
    found = merge([first, second])
    assert found.likely("x://q/1") == [first, second]
    assert found.likely("x://q/2") == [second]
    assert found.likely("y://q") == []


def test_hostile_templates_do_not_slow_down_matching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is not found in time is asked later, like all that have no templates."""
    tried = []

    def matches(template: str, uri: str) -> bool:
        tried.append(template)
        return template == "x://{id}"

    monkeypatch.setattr(merged, "matches", matches)
    slow = source("slow", templates=[f"x://{{+a}}{'{b}' * 31}{number}" for number in range(2_000)])
    quick = source("quick", templates=["a://{id}", "x://{id}"])
    assert merge([quick]).likely("x://1") == [quick]
    tried.clear()
    assert merge([slow, quick]).likely("x://" + "1" * 100) == []
    assert 0 < len(tried) < 100
