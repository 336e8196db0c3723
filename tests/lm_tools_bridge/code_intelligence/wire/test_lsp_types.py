"""Messages that are none of LSP's are noticed: all doubles of servers compare what they get with its types."""

from __future__ import annotations

from typing import Any

import pytest

from support.servers.language_servers.lsp_types import assert_is_lsp

METHOD = "textDocument/references"
PARAMS = {
    "textDocument": {"uri": "file:///a"},
    "position": {"line": 0, "character": 1},
    "context": {"includeDeclaration": False},
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": {}},
        {"context": {"includeDeclarations": True}},
        {"position": {"line": 0}},
        {"textDocument": None},
        {"more": 1},
    ],
    ids=["missing", "misspelt", "half a position", "no document", "unknown"],
)
def test_a_request_that_lsp_does_not_know_so_is_noticed(wrong: dict[str, Any]) -> None:
    assert_is_lsp(METHOD, PARAMS)
    with pytest.raises(AssertionError, match=METHOD):
        assert_is_lsp(METHOD, {**PARAMS, **wrong})
