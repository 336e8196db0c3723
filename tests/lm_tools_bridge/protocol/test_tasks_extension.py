"""Tests of the parts of MCP tasks that manager and workspace server share."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lm_tools_bridge.protocol import tasks_extension as tasks

KEY = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("capabilities", "known"),
    [
        ({"extensions": {tasks.EXTENSION: {}}}, True),
        ({"extensions": {tasks.EXTENSION: {"x": 1}, "other": {}}}, True),
        ({"extensions": {tasks.EXTENSION: None}}, False),
        ({"extensions": {"other": {}}}, False),
        ({"extensions": []}, False),
        ({"tasks": {}}, False),
        ({}, False),
    ],
)
def test_a_client_supports_tasks_if_it_declares_the_extension(
    capabilities: dict[str, Any], known: bool
) -> None:
    assert tasks.is_declared(capabilities) is known


@pytest.mark.parametrize(
    ("capabilities", "rest"),
    [
        (
            {"roots": {}, "extensions": {tasks.EXTENSION: {}, "other": {}}},
            {"roots": {}, "extensions": {"other": {}}},
        ),
        ({"extensions": {tasks.EXTENSION: {}}}, {}),
        ({"roots": {}}, {"roots": {}}),
        ({"extensions": 7}, {"extensions": 7}),
    ],
)
def test_the_tasks_extension_can_be_removed_from_capabilities(
    capabilities: dict[str, Any], rest: dict[str, Any]
) -> None:
    assert tasks.without_tasks(capabilities) == rest


def test_a_task_id_contains_its_workspace() -> None:
    task = tasks.task_id("my-shop-0123456789ab", KEY)
    assert tasks.workspace_of(task) == "my-shop-0123456789ab"
    assert tasks.key_of(task, "my-shop-0123456789ab") == KEY
    assert tasks.key_of(task, "shop-0123456789ab") is None


@pytest.mark.parametrize(
    "task",
    [
        "",
        KEY,
        f"ws.{KEY}0",
        f"ws.{KEY[1:]}",
        f"ws.{KEY.upper()}",
        f"../ws.{KEY}",
        f"a.b.{KEY}",
        f"ws.{KEY}\n",
    ],
)
def test_other_ids_belong_to_no_workspace(task: str) -> None:
    assert tasks.workspace_of(task) is None


def test_refusals_are_those_of_the_extension() -> None:
    missing = tasks.missing_capability(b"1", tasks.GET)
    assert (missing.status, missing.code) == (400, -32021)
    required = msgspec.json.decode(missing.body())["error"]["data"]["requiredCapabilities"]
    assert required == {"extensions": {tasks.EXTENSION: {}}}
    unknown = tasks.unknown_task(b'"x"', "t" * 1000)
    assert unknown.code == -32602
    assert len(unknown.body()) < 400
