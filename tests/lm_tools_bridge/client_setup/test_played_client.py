"""Tests the summary of what a played client saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.client_setup.clients import Machine
from lm_tools_bridge.client_setup.played_client import Place, Seen, Tools, summary

PLACE = Place(Machine({}, Path("/home/me"), "linux"), Path("/p"), Path("/p"))
TOOLS = Tools(
    (
        {"name": "lm_readFile", "source": "builtin"},
        {"name": "memory__read_graph", "source": "stdio:memory"},
    )
)


@pytest.mark.parametrize("name", ["memory__read_graph", "memory_read_graph"])
def test_a_tool_is_counted_for_its_source_with_either_separator(name: str) -> None:
    seen = Seen(("lm_readFile", name), "p-1", "query", 0.1)
    said = summary(seen, TOOLS, PLACE)
    assert said == "2 tools (1 built in, 1 of stdio:memory) in 0.1 s; /p, found by query"
