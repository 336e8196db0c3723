"""The filter of tools by name."""

from __future__ import annotations

import pytest

from workspace_server.internal_channel.dispatcher import ToolFilter

SEEN = {
    "visible": (False, True),
    "off": (False, False),
    "openllm_x": (True, True),
    "openllm_off": (True, False),
}


@pytest.mark.parametrize(
    ("chosen", "passing"),
    [
        (ToolFilter(), {"visible"}),
        (ToolFilter().with_internal(), {"visible", "openllm_x"}),
        (ToolFilter.all(), set(SEEN)),
        (ToolFilter.all().with_exclude(["off"]), {"visible", "openllm_x", "openllm_off"}),
        (ToolFilter().with_include(["visible", "off", "openllm_x"]), {"visible"}),
        (ToolFilter().with_include(["visible"]).with_exclude(["visible"]), set()),
        (ToolFilter.all().with_include([]), set()),
        (ToolFilter.all().with_include(["off"]).with_include(["visible"]), {"visible", "off"}),
    ],
)
def test_internal_then_enabled_then_exclude_then_include(chosen: ToolFilter, passing: set[str]) -> None:
    assert {
        name
        for name, (internal, enabled) in SEEN.items()
        if chosen.passes(name, internal=internal, enabled=enabled)
    } == passing
