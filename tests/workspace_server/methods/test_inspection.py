"""What `lmtb tools` shows of a workspace's tools."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiohttp import ClientSession

from lm_tools_bridge.protocol import headers
from support.clients.stateless_requests import SECRET
from support.processes.workspace_app import serving
from support.servers.mcp_sources.app_source import AppSource
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.config.model import Configuration, PolicyDeltas, VisibilityChoices


async def test_every_tool_is_shown_with_source_state_reason_and_cost() -> None:
    source = ScriptedSource(
        [tool("a", description="x" * 400), tool("off"), tool("rare", visibility="ondemand")]
    )
    source.waiting = {"later": "/ws"}
    configuration = Configuration(deltas=PolicyDeltas(disabled=("off",)), approvals={"rare": "deny"})
    async with serving([source], configuration=configuration) as served:
        found = await inspected(served.session, served.base)
    assert found["ok"] is True
    rows = {row["name"]: row for row in found["tools"]}
    assert list(rows) == ["a", "later", "off", "rare"]
    assert [rows[name]["state"] for name in rows] == ["callable", "pending", "hidden", "callable"]
    assert [rows[name]["listed"] for name in rows] == [True, False, False, False]
    assert rows["a"]["tokens"] > 100
    assert (rows["a"]["approval"], rows["rare"]["approval"]) == ("allow", "deny")
    assert "disabled" in rows["off"]["reason"]
    assert "lmtb trust /ws" in rows["later"]["reason"]
    assert (rows["rare"]["visibility"], rows["rare"]["visibilityOrigin"]) == ("ondemand", "source")
    assert rows["a"]["group"]["id"]
    assert [one["id"] for one in found["sources"]] == ["script"]


async def test_the_cost_of_a_tool_is_that_of_what_agents_send_to_models() -> None:
    sent = tool("a", description="x" * 400)
    unsent = {
        "outputSchema": {"type": "object", "title": "y" * 4000},
        "title": "z" * 4000,
        "_meta": {"m": "n"},
    }
    source = ScriptedSource(
        [sent, replace(sent, name="b", definition={**sent.definition, "name": "b", **unsent})]
    )
    async with serving([source]) as served:
        found = await inspected(served.session, served.base)
    first, second = (row["tokens"] for row in found["tools"])
    assert first == second > 100
    assert 0 < found["instructions"]["tokens"] < 200


async def test_tools_that_only_apps_call_are_shown_as_such() -> None:
    async with serving([AppSource("clock")]) as served:
        found = await inspected(served.session, served.base)
    rows = {row["name"]: (row["listed"], row["state"], row.get("unlisted")) for row in found["tools"]}
    assert rows == {
        "clock__get-time": (False, "callable", "only apps of its server call it"),
        "clock__plain": (True, "callable", None),
        "clock__show-time": (True, "callable", None),
    }


async def test_why_a_source_leaves_a_tool_out_of_lists_is_shown() -> None:
    source = ScriptedSource([tool("a"), replace(tool("b"), unlisted="nothing to do")])
    async with serving([source]) as served:
        found = await inspected(served.session, served.base)
    assert [(row["listed"], row.get("unlisted")) for row in found["tools"]] == [
        (True, None),
        (False, "nothing to do"),
    ]


async def test_who_chose_a_visibility_is_shown() -> None:
    source = ScriptedSource([tool("a"), tool("b"), tool("off")])
    choices = VisibilityChoices({"a": "always"}, {"script": "ondemand"})
    configuration = Configuration(deltas=PolicyDeltas(disabled=("off",)), visibility=choices)
    async with serving([source], configuration=configuration) as served:
        found = await inspected(served.session, served.base)
    rows = {row["name"]: (row["visibility"], row["visibilityOrigin"]) for row in found["tools"]}
    assert rows["a"] == ("always", "yours")
    assert rows["b"] == rows["off"] == ("ondemand", "yours_for_source")
    assert [one["visibility"] for one in found["sources"]] == ["ondemand"]


async def inspected(session: ClientSession, base: str) -> Any:
    async with session.get(f"{base}/mcp/inspect", headers={headers.SECRET: SECRET}) as response:
        return await response.json()


async def test_refresh_asks_the_sources_to_look_again() -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        assert await refresh(served.session, served.base, "script") is True
        assert await refresh(served.session, served.base, "nobody") is False
        assert source.refreshed == 1


async def test_a_restart_says_what_was_done_to_each_source() -> None:
    source = ScriptedSource([tool("a")])
    async with serving([source]) as served:
        sent = {headers.SECRET: SECRET, "Content-Type": "application/json"}
        for query, done in (("", {"script"}), ("?source=script", {"script"}), ("?source=nobody", set())):
            async with served.session.post(f"{served.base}/mcp/restart{query}", headers=sent) as response:
                answer = await response.json()
            assert answer["ok"] == bool(done)
            assert answer["restarted"].keys() == done
        assert source.refreshed == 2


class HiddenSource(ScriptedSource):
    """A source that is there in case of need."""

    is_shown = False


async def test_a_restart_of_all_leaves_out_what_no_list_shows() -> None:
    source = HiddenSource([tool("a")])
    async with serving([source]) as served:
        sent = {headers.SECRET: SECRET, "Content-Type": "application/json"}
        async with served.session.post(f"{served.base}/mcp/restart", headers=sent) as response:
            assert (await response.json())["restarted"] == {}
    assert source.refreshed == 0


async def refresh(session: ClientSession, base: str, source: str) -> bool:
    sent = {headers.SECRET: SECRET, "Content-Type": "application/json"}
    async with session.post(f"{base}/mcp/refresh?source={source}", headers=sent) as response:
        ok: bool = (await response.json())["ok"]
    return ok
