"""The discovery payload of a handshake: names, hints, order, schemas."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lm_tools_bridge.protocol import names
from manager.answers import catalog
from support.processes.timeouts import within
from support.projects.registered_setup import RegisteredSetup, registered_setup
from support.servers.scripted.scripted_workspace_server import Received, result

EXAMPLE = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "isRegexp": {"type": "boolean"},
        "mode": {"enum": ["a", "b"]},
        "opt": {"type": ["string", "null"]},
        "obj": {"properties": {}},
        "arr": {"items": {}},
        "any": {},
    },
    "required": ["query", "isRegexp"],
}
HINT = (
    "Input: { query: string, isRegexp: boolean, mode?: enum, opt?: string|null, obj?: object,"
    " arr?: array, any?: unknown }."
)


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[RegisteredSetup]:
    async with registered_setup(tmp_path.resolve()) as running:
        yield running


async def discovery(setup: RegisteredSetup) -> dict[str, Any]:
    """What a fresh stateless handshake finds."""
    payload = (await setup.modern(pure=False).handshake(setup.upstream.root)).payload
    assert payload["ok"] is True
    found: dict[str, Any] = payload["discovery"]
    return found


def tool(name: str, description: str | None = None, schema: Any = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "inputSchema": schema or {"properties": {"a": {"type": "string"}}}}
    return entry if description is None else {**entry, "description": description}


def schema_result(schema: Any) -> dict[str, Any]:
    return {"contents": [{"uri": "x", "text": json.dumps({"name": "x", "inputSchema": schema})}]}


@pytest.mark.parametrize(
    ("description", "schema", "shown"),
    [
        ("Finds things", EXAMPLE, f"Finds things. {HINT}"),
        ("  Finds things. ", EXAMPLE, f"Finds things. {HINT}"),
        (None, EXAMPLE, HINT),
        ("", EXAMPLE, HINT),
        ("Has one. Input: { own }.", EXAMPLE, "Has one. Input: { own }."),
        (
            "String enum",
            {"properties": {"m": {"type": "string", "enum": []}}},
            "String enum. Input: { m?: string }.",
        ),
    ],
)
async def test_a_description_ends_with_its_hint(
    setup: RegisteredSetup, description: str | None, schema: Any, shown: str
) -> None:
    setup.upstream.tools = [tool("x", description, schema)]
    assert (await discovery(setup))["bridgedTools"] == [{"name": "x", "description": shown}]


@pytest.mark.parametrize(("description", "shown"), [("Plain", "Plain"), (None, "")])
async def test_a_schema_without_properties_gets_no_hint(
    setup: RegisteredSetup, description: str | None, shown: str
) -> None:
    setup.upstream.tools = [tool("x", description, {"type": "object"})]
    setup.upstream.answers[names.RESOURCES_READ] = result(schema_result({"type": "object"}))
    found = await discovery(setup)
    assert found["bridgedTools"] == [{"name": "x", "description": shown}]
    assert found["issues"] == []


async def test_tools_are_ordered_by_lower_cased_name(setup: RegisteredSetup) -> None:
    """The same input gives the same bytes."""
    listed = ["b", "B", "a_2", "ä", "C", "a", "A", "Z", "é"]
    setup.upstream.tools = [tool(name) for name in listed]
    first = await discovery(setup)
    assert [one["name"] for one in first["bridgedTools"]] == ["A", "a", "a_2", "B", "b", "C", "Z", "ä", "é"]
    setup.upstream.tools = [tool(name) for name in reversed(listed)]
    assert json.dumps(await discovery(setup)) == json.dumps(first)


async def test_all_pages_are_followed(setup: RegisteredSetup) -> None:
    """A cursor that comes again ends it."""
    pages = {None: ("one", "c1"), "c1": ("two", "c2"), "c2": ("three", "c1")}

    async def page(request: web.Request, received: Received) -> web.StreamResponse:
        name, cursor = pages[received.params.get("cursor")]
        return await result({"tools": [tool(name)], "nextCursor": cursor})(request, received)

    setup.upstream.answers[names.TOOLS_LIST] = page
    found = await discovery(setup)
    assert [one["name"] for one in found["bridgedTools"]] == ["one", "three", "two"]
    assert found["partial"] is False


async def test_the_managers_requests_have_ids_and_encoded_schema_names(
    setup: RegisteredSetup,
) -> None:
    """No read where the list carries the schema."""
    setup.upstream.tools = [tool("carried"), {"name": "a b/ü", "inputSchema": {"type": "object"}}]
    setup.upstream.answers[names.RESOURCES_READ] = result(schema_result(EXAMPLE))
    found = await discovery(setup)
    assert found["bridgedTools"][0] == {"name": "a b/ü", "description": HINT}
    read = [
        one.params["uri"] for one in setup.upstream.received if one.message["method"] == names.RESOURCES_READ
    ]
    assert read == ["lm-tools://schema/a%20b%2F%C3%BC"]
    assert all(one.message["id"] for one in setup.upstream.received)
    assert len({one.id for one in setup.upstream.received}) == len(setup.upstream.received)


async def test_at_most_eight_schemas_are_read_at_a_time(setup: RegisteredSetup) -> None:
    now, most = 0, 0

    async def read(request: web.Request, received: Received) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        return await result(schema_result(EXAMPLE))(request, received)

    setup.upstream.answers[names.RESOURCES_READ] = read
    setup.upstream.tools = [{"name": f"t{number}"} for number in range(40)]
    found = await discovery(setup)
    assert most == 8
    assert all(one["description"] == HINT for one in found["bridgedTools"])


async def test_slow_schemas_share_one_deadline(
    setup: RegisteredSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bounded time; each costs a warning and its hint, the others stay."""
    monkeypatch.setattr(catalog, "SCHEMA_DEADLINE_S", 0.3)

    async def read(request: web.Request, received: Received) -> web.StreamResponse:
        await asyncio.sleep(3600)
        raise AssertionError("unreachable")

    setup.upstream.answers[names.RESOURCES_READ] = read
    setup.upstream.tools = [tool("quick"), *({"name": f"slow{number:02}"} for number in range(30))]
    async with asyncio.timeout(within(1)):
        found = await discovery(setup)
    assert found["partial"] is False
    assert [one["code"] for one in found["issues"]] == ["SCHEMA_READ_REQUEST_FAILED"] * 30
    assert found["bridgedTools"][0]["description"] == "Input: { a?: string }."
    assert {one["description"] for one in found["bridgedTools"][1:]} == {""}


async def test_500_tools_with_bad_and_missing_schemas(setup: RegisteredSetup) -> None:
    """One warning a bad tool, `partial` false, the same bytes each time whatever answers first."""

    async def read(request: web.Request, received: Received) -> web.StreamResponse:
        number = int(received.params["uri"][-3:])
        await asyncio.sleep(0.002 * (hash(received.id) % 5))
        return await result({"contents": []} if number % 2 else schema_result(EXAMPLE))(request, received)

    setup.upstream.answers[names.RESOURCES_READ] = read
    setup.upstream.tools = [
        {"name": f"tool_{number:03}", "inputSchema": "bad"} if number % 10 < 2 else tool(f"tool_{number:03}")
        for number in range(500)
    ]
    runs = {json.dumps(await discovery(setup)) for _ in range(5)}
    assert len(runs) == 1
    found = json.loads(runs.pop())
    assert len(found["bridgedTools"]) == 500
    assert found["partial"] is False
    assert [(one["code"], one["toolName"]) for one in found["issues"]] == [
        ("SCHEMA_CONTENT_MISSING", f"tool_{number:03}") for number in range(1, 500, 10)
    ]
