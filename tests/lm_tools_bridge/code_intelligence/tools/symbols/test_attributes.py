"""Attributes that a method sets belong to their class, however a server lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.tools.symbols.symbols import outline
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import InMemoryServer, at, kind, workplace_of

TEXT = """\
class Loop:
    __slots__ = (
        "depth",
    )

    def __init__(self, depth):
        self.depth = depth
"""


def symbol(name: str, kind_number: int, where: Any, *children: Any) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind_number,
        "range": where,
        "selectionRange": {"start": where["start"], "end": where["start"]},
        "children": list(children),
    }


@pytest.mark.parametrize("attribute", [(2, 9), (6, 13)])
async def test_an_attribute_is_found_where_a_method_sets_it(
    tmp_path: Path, attribute: tuple[int, int]
) -> None:
    """Servers list it there, or in `__slots__`, where none knows its uses."""
    root = write_tree(tmp_path, {"loop.py": TEXT})
    method = at(5, 4)
    method["end"] = {"line": 6, "character": 26}
    whole = at(0, 0)
    whole["end"] = {"line": 6, "character": 26}
    init = symbol("__init__", 6, method, symbol("depth", 13, at(5, 23)))
    server = InMemoryServer(kind("py", ".py"))
    loop = symbol("Loop", 5, whole, init, symbol("depth", 13, at(*attribute)))
    server.answers["textDocument/documentSymbol"] = lambda _: [loop]
    texts = await workplace_of(root, server).texts()
    symbols = [each for each in await outline(server, root / "loop.py", texts) if each.path[-1] == "depth"]
    places = {(each.path, each.place.span.start.line, each.is_local) for each in symbols}
    assert places == {(("Loop", "__init__", "depth"), 6, True), (("Loop", "depth"), 7, False)}
