"""What tools say of their apps, however they say it."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.protocol import apps_extension as apps
from lm_tools_bridge.protocol.apps_extension import ToolUi

PAGE = "ui://a/page.html"


def definition(**meta: Any) -> dict[str, Any]:
    return {"name": "t", "inputSchema": {}, "_meta": meta}


@pytest.mark.parametrize(
    ("meta", "ui"),
    [
        ({}, None),
        ({"ui": "x"}, None),
        ({"ui/resourceUri": 3}, None),
        ({"ui": {}}, ToolUi(None, True, True)),
        ({"ui": {"resourceUri": PAGE}}, ToolUi(PAGE, True, True)),
        ({"ui/resourceUri": PAGE}, ToolUi(PAGE, True, True)),
        ({"ui": {"visibility": ["app"]}}, ToolUi(None, False, True)),
        ({"ui": {"visibility": ["model"], "resourceUri": 1}}, ToolUi(None, True, False)),
        ({"ui": {"visibility": []}, "ui/resourceUri": PAGE}, ToolUi(PAGE, False, False)),
        ({"ui": {"visibility": "app"}}, ToolUi(None, True, True)),
        ({"ui": {"visibility": [{"x": 1}, "app"]}}, ToolUi(None, False, True)),
    ],
)
def test_a_tool_says_what_its_page_is_and_who_may_call_it(meta: dict[str, Any], ui: ToolUi | None) -> None:
    assert apps.tool_ui(definition(**meta)) == ui


@pytest.mark.parametrize("meta", [None, "x", [], 1])
def test_a_tool_whose_meta_is_no_object_has_no_app(meta: Any) -> None:
    broken = {"name": "t", "inputSchema": {}, "_meta": meta}
    assert apps.tool_ui(broken) is None
    assert apps.identity(broken) is None
    assert apps.without_ui(broken) == broken


def test_a_page_moves_wherever_the_tool_names_it_and_all_else_stays() -> None:
    both = definition(ui={"resourceUri": PAGE, "x": 1}, other=[2], **{"ui/resourceUri": PAGE})
    moved = apps.with_page(both, "ui://b+a/page.html")
    other = {"resourceUri": "ui://b+a/page.html", "x": 1}
    assert moved == definition(ui=other, other=[2], **{"ui/resourceUri": "ui://b+a/page.html"})
    assert both["_meta"]["ui"]["resourceUri"] == PAGE
    flat = definition(**{"ui/resourceUri": PAGE})
    assert apps.with_page(flat, "ui://n")["_meta"] == {"ui/resourceUri": "ui://n"}


def test_a_tool_without_its_app_keeps_the_rest_of_its_meta() -> None:
    both = definition(ui={"resourceUri": PAGE}, **{"ui/resourceUri": PAGE, "x": 1})
    assert apps.without_ui(both) == definition(x=1)
    assert "_meta" not in apps.without_ui(definition(ui={}))


def test_an_address_that_was_moved_comes_back_for_its_own_server_alone() -> None:
    for address in (PAGE, "ui://a", "ui://a+b/c?d#e", "ui://"):
        moved = apps.moved(address, "clock")
        assert apps.unmoved(moved, "clock") == address
        assert apps.unmoved(moved, "clocks") is None
        assert moved != address
    assert apps.authority(apps.moved(PAGE, "clock")) == "clock+a"


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("__0123456789ab_save", "0123456789ab"),
        ("__0123456789ab__save", "0123456789ab"),
        ("__0123456789ab_", None),
        ("__0123456789AB_save", None),
        ("__0123456789a_save", None),
        ("x__0123456789ab_save", None),
        ("clock__get-time", None),
    ],
)
def test_a_name_of_fastmcp_tells_the_identity_of_its_tool(name: str, identity: str | None) -> None:
    assert apps.named_identity(name) == identity


def test_capabilities_are_told_with_and_without_apps() -> None:
    with_apps = {"roots": {}, "extensions": {apps.EXTENSION: {"mimeTypes": []}, "x/y": {}}}
    assert apps.is_declared(with_apps)
    assert apps.without_apps(with_apps) == {"roots": {}, "extensions": {"x/y": {}}}
    for without in ({}, {"extensions": None}, {"extensions": {apps.EXTENSION: True}}):
        assert not apps.is_declared(without)
        assert apps.without_apps(without) is without
