"""Which tools a request can call, and which it gets listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from multidict import CIMultiDict

from lm_tools_bridge.protocol.internal.client_traits import ClientTraits
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.view import Mode, View, build_view, mode_of
from workspace_server.config.model import Configuration, PolicyDeltas, VisibilityChoices
from workspace_server.tool import Tool

META = ["execute_tool", "tool_search"]


async def view_of(*tools: Tool, configuration: Configuration | None = None, **source: Any) -> View:
    scripted = ScriptedSource(tools, **source)
    return build_view(await Registry([scripted]).snapshot(), configuration or Configuration())


def shown(view: View, mode: Mode) -> list[str]:
    return names_of(view.listed(mode))


def names_of(definitions: Iterable[Mapping[str, Any]]) -> list[str]:
    return [str(definition["name"]) for definition in definitions]


@pytest.mark.parametrize(
    ("header", "query", "mode"),
    [
        ({}, {}, Mode.NORMAL),
        ({"x-mcp-show-all": "TRUE"}, {}, Mode.SHOW_ALL),
        ({"X-MCP-Show-All": "1"}, {}, Mode.NORMAL),
        ({"X-MCP-Show-All": "yes"}, {}, Mode.NORMAL),
        ({}, {"show_all": "true"}, Mode.SHOW_ALL),
        ({"X-MCP-Show-All": "false"}, {"show_all": "true"}, Mode.NORMAL),
        ({"X-MCP-Show-All": ""}, {"show_all": "true"}, Mode.NORMAL),
        ({"X-MCP-Tool-Mode": "bogus"}, {"tool_mode": ""}, Mode.NORMAL),
        ({"X-MCP-Tool-Mode": "DISCOVERY"}, {}, Mode.DISCOVERY),
        ({}, {"tool_mode": "Discovery"}, Mode.DISCOVERY),
        ({"X-MCP-Tool-Mode": "x"}, {"tool_mode": "discovery"}, Mode.NORMAL),
        ({"X-MCP-Tool-Mode": "discovery", "X-MCP-Show-All": "true"}, {}, Mode.DISCOVERY),
        ({"X-MCP-Show-All": "true"}, {"tool_mode": "discovery"}, Mode.DISCOVERY),
    ],
)
def test_mode_comes_from_a_present_header_else_from_the_query(
    header: dict[str, str], query: dict[str, str], mode: Mode
) -> None:
    assert mode_of(CIMultiDict(header), query) is mode


async def test_modes_list_what_the_table_says() -> None:
    view = await view_of(*(tool(name, visibility=name) for name in ("always", "native", "ondemand")))
    assert shown(view, Mode.NORMAL) == ["always", "execute_tool", "native", "tool_search"]
    assert shown(view, Mode.DISCOVERY) == ["always", *META]
    assert shown(view, Mode.SHOW_ALL) == ["always", "native", "ondemand"]
    assert sorted(view.by_name) == ["always", "native", "ondemand"]


async def test_the_users_choice_wins_over_what_a_source_says() -> None:
    said = [tool(name, visibility=name) for name in ("always", "native", "ondemand")]
    chosen = VisibilityChoices({"native": "ondemand", "ondemand": "native"})
    view = await view_of(*said, configuration=Configuration(visibility=chosen))
    assert shown(view, Mode.NORMAL) == ["always", "execute_tool", "ondemand", "tool_search"]
    assert sorted(view.by_name) == ["always", "native", "ondemand"], "all can be called"
    chosen = VisibilityChoices({"native": "native"}, {"script": "always"})
    view = await view_of(*said, configuration=Configuration(visibility=chosen))
    assert shown(view, Mode.DISCOVERY) == ["always", *META[:1], "ondemand", *META[1:]]


async def test_a_choice_is_a_change_of_the_tools() -> None:
    before = await view_of(tool("a"))
    chosen = Configuration(visibility=VisibilityChoices({"a": "always"}))
    assert (await view_of(tool("a"), configuration=chosen)).differences(before) == {"tools"}


async def test_a_choice_does_not_offer_a_tool_that_is_disabled() -> None:
    deltas, chosen = PolicyDeltas(disabled=("a",)), VisibilityChoices({"a": "always"})
    view = await view_of(tool("a"), configuration=Configuration(deltas=deltas, visibility=chosen))
    assert shown(view, Mode.SHOW_ALL) == []


async def test_a_tool_that_its_source_leaves_out_of_lists_can_be_called_and_needs_no_meta_tools() -> None:
    left_out = replace(tool("b"), unlisted="nothing to do")
    view = await view_of(tool("a"), left_out)
    assert shown(view, Mode.NORMAL) == ["a"]
    assert shown(view, Mode.SHOW_ALL) == ["a", "b"]
    assert view.get("b") is not None
    assert view.differences(await view_of(tool("a"), tool("b"))) == {"tools"}
    chosen = Configuration(visibility=VisibilityChoices(tools={"b": "native"}))
    view = await view_of(tool("a"), left_out, configuration=chosen)
    assert shown(view, Mode.NORMAL) == ["a", "b"]


async def test_meta_tools_are_listed_only_where_something_is_not() -> None:
    native = await view_of(tool("a"))
    assert shown(native, Mode.NORMAL) == ["a"]
    assert shown(native, Mode.DISCOVERY) == META
    hidden = Configuration(deltas=PolicyDeltas(disabled=("b",)))
    view = await view_of(tool("a"), tool("b", visibility="ondemand"), configuration=hidden)
    assert shown(view, Mode.NORMAL) == ["a"]


async def test_meta_tools_that_a_client_was_shown_stay() -> None:
    view = await view_of(tool("a"))
    assert names_of(view.listed(Mode.NORMAL, keeps_meta_tools=True)) == ["a", *META]
    assert names_of(view.listed(Mode.SHOW_ALL, keeps_meta_tools=True)) == ["a"]


async def test_a_client_that_lists_once_always_has_execute_tool() -> None:
    """By it, it can search and call what comes later."""
    view, once = await view_of(tool("a")), ClientTraits(lists_once=True)
    _, execute = view.listed(Mode.NORMAL, traits=once)
    assert execute["name"] == "execute_tool"
    assert "`tool_search`" in execute["description"]
    _, execute = view.listed(Mode.NORMAL, traits=once._replace(own_tool_search=True))
    assert "`search_project_tools`" in execute["description"]
    on_demand = await view_of(tool("b", visibility="ondemand"))
    assert names_of(on_demand.listed(Mode.NORMAL, traits=once)) == META


async def test_a_client_with_its_own_tool_search_is_shown_ours_under_another_name() -> None:
    view = await view_of(tool("a"))
    listed = view.listed(Mode.DISCOVERY, traits=ClientTraits(own_tool_search=True))
    assert names_of(listed) == ["execute_tool", "search_project_tools"]
    assert "tool_search" not in str(listed).replace("search_project_tools", "")


async def test_keywords_are_in_no_list() -> None:
    view = await view_of(tool("a", keywords=("canary",)))
    assert "canary" not in str([view.listed(mode) for mode in Mode])


async def test_every_tool_that_cannot_be_called_has_its_reason() -> None:
    deltas = PolicyDeltas(disabled=("up__off",), unexposed=("up__un",))
    tools = [tool(name) for name in ("off", "un", "out", "fine", "copilot_applyPatch")]
    source = ScriptedSource(tools, identity="up", namespace="up")
    source.exclude = ("out",)
    source.waiting = {"deploy": "/ws"}
    script = ScriptedSource([tool("copilot_applyPatch"), tool("openllm_x")])
    script.id = "other"
    registry = Registry([source, script])
    registry.internal_prefix = "nothing_"
    view = build_view(await registry.snapshot(), Configuration(deltas=deltas))
    assert sorted(view.by_name) == ["up__copilot_applyPatch", "up__fine"]
    assert set(view.hidden) == {
        "up__off", "up__un", "up__out", "deploy", "copilot_applyPatch", "openllm_x",
    }  # fmt: skip
    assert "lmtb trust /ws" in view.hidden["deploy"]
    assert "exclude" in view.hidden["up__out"]


async def test_at_most_five_near_matches_ignore_case_and_internal_names() -> None:
    names = ("calculator", "datetime", "openlm_secrets_get", *(f"lm_clangd_{index}" for index in range(9)))
    source = ScriptedSource([tool(name) for name in names], identity="builtin")
    source.kind = "builtin"
    view = build_view(await Registry([source]).snapshot(), Configuration())
    assert view.nearest("calculater") == ["calculator"]
    assert view.nearest("CALCULATOR") == ["calculator"]
    assert len(view.nearest("lm_clangd_")) == 5
    assert view.nearest("zzz") == []
    assert view.nearest("openllm_secrets_get") == []


SCHEMA = {
    "type": "object",
    "properties": {"limit": {"type": "integer", "maximum": 10}, "kind": {"enum": ["a", "b"]}, "must": {}},
    "required": ["must"],
}


@pytest.mark.parametrize(
    ("parameter", "value", "fits"),
    [
        ("limit", 7, True), ("kind", "b", True), ("limit", "7", False), ("limit", 11, False),
        ("kind", "c", False), ("must", 1, False), ("nothing", 1, False),
    ],
)  # fmt: skip
async def test_schema_defaults_are_shown_and_filled_in_where_they_fit(
    parameter: str, value: Any, fits: bool
) -> None:
    configuration = Configuration(schema_defaults=(("my_tool", parameter, value),))
    view = await view_of(tool("my_tool", SCHEMA), tool("other"), configuration=configuration)
    (definition,) = (one for one in view.listed(Mode.NORMAL) if one["name"] == "my_tool")
    properties = definition["inputSchema"]["properties"]
    assert properties.get(parameter, {}).get("default", None) == (value if fits else None)
    assert [issue.code for issue in view.issues] == ([] if fits else ["SCHEMA_DEFAULT_IGNORED"])
    assert "default" not in str(SCHEMA)


class Forwarding(ScriptedSource):
    """A source that runs tools it does not list."""

    @property
    def accepts_unlisted(self) -> bool:
        return True


async def test_an_internal_name_leads_nowhere_whatever_claims_it() -> None:
    """Neither to a source whose namespace begins like it, nor to content that waits for trust."""
    claiming = Forwarding([], identity="remote:openllm", namespace="openllm_secrets")
    claiming.separator = "_"
    claiming.waiting = {"openllm_config_get": "/ws", "mine": "/ws"}
    view = build_view(await Registry([claiming]).snapshot(), Configuration())
    assert view.forwarded("openllm_secrets_get") is None
    assert (view.trust_path_for("openllm_config_get"), view.trust_path_for("mine")) == (None, "/ws")
    renamed = build_view(await Registry([claiming]).snapshot(), Configuration(internal_prefix="other_"))
    assert renamed.forwarded("openllm_secrets_get") == (claiming, "get")


async def test_what_waits_for_trust_takes_no_name_away_and_says_so_by_its_own() -> None:
    builtin = ScriptedSource([tool("calculator")], identity="builtin")
    builtin.kind = "builtin"
    script = ScriptedSource()
    script.waiting = {"calculator": "/ws", "deploy": "/ws"}
    server = ScriptedSource(identity="stdio:rel", namespace="rel")
    server.state, server.trust_path = "pending_trust", "/ws"
    view = build_view(await Registry([builtin, script, server]).snapshot(), Configuration())
    assert list(view.by_name) == ["calculator"]
    assert "calculator" not in view.hidden
    assert [view.trust_path_for(name) for name in ("deploy", "rel__echo", "other__echo")] == [
        "/ws",
        "/ws",
        None,
    ]


async def test_a_rule_that_cannot_be_read_leaves_no_tool_and_forwards_none() -> None:
    closed = Configuration(deltas=PolicyDeltas(enabled=("up__a",), exposed=("up__a",), closed=True))
    source = Forwarding([tool("a")], identity="up", namespace="up")
    view = build_view(await Registry([source]).snapshot(), closed)
    assert (view.tools, view.forwarded("up__other")) == ((), None)
    assert "cannot be read" in view.hidden["up__a"]
    assert build_view(await Registry([source]).snapshot(), Configuration()).forwarded("up__other") is not None
