"""The policy is compared with a direct transcription of its formulas."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workspace_server.config import policy
from workspace_server.config.model import PolicyDeltas
from workspace_server.source import Default

K = {"lm_findFiles", "lm_findTextInFiles", "lm_readFile", "lm_listDirectory", "calculator", "datetime"}
BUILTINS: dict[str, Default] = dict.fromkeys(K, "enabled")
GITHUB: dict[str, Default] = {"gh__list": "enabled"}
CLANGD: dict[str, Default] = {"lm_clangd_status": "exposed"}
EDITOR: dict[str, Default] = {
    "foo": "off",
    "run_in_terminal": "off",
    "copilot_readFile": "off",
    "copilot_searchCodebase": "off",
}
WORLD = BUILTINS | GITHUB | CLANGD | EDITOR

names = st.lists(st.sampled_from([*WORLD, "unknown__tool", "gone"]), max_size=6).map(tuple)
deltas = st.builds(PolicyDeltas, names, names, names, names)
worlds = st.dictionaries(
    st.sampled_from(list(WORLD)), st.sampled_from(["enabled", "exposed", "off"]), max_size=len(WORLD)
)


def visible(defaults: dict[str, Default], lists: PolicyDeltas) -> set[str]:
    decided = policy.decide(defaults, lists)
    return {name for name in defaults if decided.visible(name)}


def transcribed(defaults: dict[str, Default], lists: PolicyDeltas) -> set[str]:
    """The contract's formulas, one name at a time."""
    r = policy.REQUIRED
    k = r | {"lm_readFile", "lm_listDirectory", "calculator", "datetime"}
    found = set()
    for n, default in defaults.items():
        b = n in policy.BUILT_IN_DISABLED
        d_en = (n in k or default == "enabled") and not b
        d_ex = d_en or (default == "exposed" and not b)
        unexp = (n in lists.unexposed and not b) and n not in r
        exposed = ((n in lists.exposed and not b) or n in r or (d_ex and not unexp)) and not unexp and not b
        enabled = (n in lists.enabled or (d_en and n not in lists.disabled)) and n not in lists.disabled
        if exposed and enabled and not b:
            found.add(n)
    return found


@given(worlds, deltas)
def test_visible_tools_follow_the_policy_formulas(defaults: dict[str, Default], lists: PolicyDeltas) -> None:
    assert visible(defaults, lists) == transcribed(defaults, lists)


@given(worlds, deltas)
def test_every_hidden_name_has_a_reason_and_no_visible_one(
    defaults: dict[str, Default], lists: PolicyDeltas
) -> None:
    hidden = policy.hidden(defaults, lists)
    assert set(hidden) == set(defaults) - transcribed(defaults, lists)
    assert all(hidden.values())


@given(worlds, deltas)
def test_pruning_keeps_visible_tools_and_is_idempotent(
    defaults: dict[str, Default], lists: PolicyDeltas
) -> None:
    pruned = policy.prune(defaults, lists)
    assert visible(defaults, pruned) == visible(defaults, lists)
    assert policy.prune(defaults, pruned) == pruned
    for layer in (pruned.exposed, pruned.unexposed, pruned.enabled, pruned.disabled):
        assert list(layer) == sorted(set(layer))
        assert not set(layer) & policy.BUILT_IN_DISABLED
    assert not set(pruned.unexposed) & policy.REQUIRED
    decided = policy.decide(defaults, pruned)
    hidden = {name for name in defaults if name not in decided.exposed}
    assert not hidden & (set(pruned.enabled) | set(pruned.disabled))


@given(worlds, deltas, st.sampled_from([*WORLD]), st.booleans())
def test_switching_one_tool_changes_no_other(
    defaults: dict[str, Default], lists: PolicyDeltas, name: str, enabled: bool
) -> None:
    after = policy.with_tool(defaults, lists, name, "enable" if enabled else "disable")
    now, before = visible(defaults, after), visible(defaults, lists)
    assert now - {name} == before - {name}
    if name in defaults:
        assert (name in now) == (enabled and name not in policy.BUILT_IN_DISABLED)


@given(worlds, deltas, st.sampled_from([*WORLD]), st.booleans())
def test_exposing_one_tool_changes_no_other(
    defaults: dict[str, Default], lists: PolicyDeltas, name: str, exposed: bool
) -> None:
    after = policy.with_tool(defaults, lists, name, "expose" if exposed else "unexpose")
    now, before = visible(defaults, after), visible(defaults, lists)
    assert now - {name} == before - {name}
    if name in defaults and name not in policy.REQUIRED:
        is_exposed = name in policy.decide(defaults, after).exposed
        assert is_exposed == (exposed and name not in policy.BUILT_IN_DISABLED)


@pytest.mark.parametrize(
    ("lists", "hidden", "shown"),
    [
        (PolicyDeltas(), {"lm_clangd_status", "foo"}, K | {"gh__list"}),
        (PolicyDeltas(enabled=("lm_clangd_status",)), {"foo"}, K | {"gh__list", "lm_clangd_status"}),
        (PolicyDeltas(unexposed=("gh__list",), enabled=("gh__list",)), {"gh__list"}, K),
        (PolicyDeltas(exposed=("foo",)), {"foo"}, K | {"gh__list"}),
        (PolicyDeltas(exposed=("foo",), enabled=("foo",)), set(), K | {"gh__list", "foo"}),
    ],
    ids="abcde",
)
def test_documented_examples(lists: PolicyDeltas, hidden: set[str], shown: set[str]) -> None:
    found = visible(WORLD, lists)
    assert found >= shown
    assert not found & hidden


def test_a_delta_of_a_tool_that_does_not_exist_stays() -> None:
    lists = PolicyDeltas(enabled=("lm_clangd_status",))
    assert policy.prune({**BUILTINS}, lists) == lists


def test_what_is_not_exposed_loses_its_enablement_on_save() -> None:
    lists = PolicyDeltas(unexposed=("gh__list",), enabled=("gh__list",))
    assert policy.prune(WORLD, lists) == PolicyDeltas(unexposed=("gh__list",))


@pytest.mark.parametrize(
    ("lists", "name", "is_visible"),
    [
        (PolicyDeltas(enabled=("gh__list",), disabled=("gh__list",)), "gh__list", False),
        (PolicyDeltas(exposed=("gh__list",), unexposed=("gh__list",)), "gh__list", False),
        (PolicyDeltas(unexposed=("lm_findFiles",)), "lm_findFiles", True),
        (PolicyDeltas(disabled=("lm_findFiles",)), "lm_findFiles", False),
        (PolicyDeltas(exposed=("run_in_terminal",), enabled=("run_in_terminal",)), "run_in_terminal", False),
        (PolicyDeltas(enabled=("copilot_searchCodebase",)), "copilot_searchCodebase", True),
    ],
)
def test_precedence(lists: PolicyDeltas, name: str, is_visible: bool) -> None:
    assert (name in visible(WORLD, lists)) is is_visible


def test_reasons_tell_the_layers_apart() -> None:
    lists = PolicyDeltas(unexposed=("gh__list",), disabled=("calculator",))
    reasons = policy.hidden(WORLD, lists)
    assert reasons["run_in_terminal"].startswith("built-in disabled")
    assert reasons["gh__list"] == "not exposed: it is in unexposedDelta"
    assert reasons["foo"] == "not exposed: its source is off by default"
    assert reasons["calculator"] == "disabled: it is in disabledDelta"
    assert reasons["lm_clangd_status"] == "disabled: its source is not enabled by default"


def test_thirty_six_names_are_always_disabled() -> None:
    assert len(policy.BUILT_IN_DISABLED) == 36
    assert "copilot_getErrors" not in policy.BUILT_IN_DISABLED
    assert len(policy.REQUIRED) == 6
