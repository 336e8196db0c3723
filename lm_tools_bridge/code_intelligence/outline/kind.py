"""Describes the outline server as one kind of language server, the last choice for every language. Pure."""

from __future__ import annotations

import sys
from typing import Final

from lm_tools_bridge.code_intelligence.outline.grammars import LANGUAGES
from lm_tools_bridge.code_intelligence.specification import ServerSpecification

OUTLINE: Final = ServerSpecification(
    name="tree-sitter",
    languages=LANGUAGES,
    commands=((sys.executable, "-I", "-m", "lm_tools_bridge.code_intelligence.outline"),),
    roles=frozenset({"symbols"}),
    runs_nothing_of_the_project="it is a part of this product, and parses texts",
    limits="found by syntax alone, without a language server: no types, and no references",
)
