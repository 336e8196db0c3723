"""Tests of the messages that the outline server answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.outline.language_server import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    OutlineServer,
)


@pytest.fixture
def server(tmp_path: Path) -> OutlineServer:
    (tmp_path / "a b.py").write_text("class Shape: ...\n")
    made = OutlineServer()
    asked(
        made,
        "initialize",
        {
            "capabilities": {"general": {"positionEncodings": ["utf-8", "utf-16"]}},
            "workspaceFolders": [{"uri": tmp_path.as_uri(), "name": "p"}],
        },
    )
    return made


def asked(server: OutlineServer, method: str, params: Any = None) -> Any:
    answer = server.handle({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert answer is not None and answer["id"] == 7
    return answer.get("result", answer.get("error"))


def told(server: OutlineServer, method: str, params: Any = None) -> None:
    assert server.handle({"jsonrpc": "2.0", "method": method, "params": params}) is None


def test_client_that_counts_otherwise_is_refused() -> None:
    assert asked(OutlineServer(), "initialize", {"capabilities": {}})["code"] == INVALID_PARAMS


def test_outline_is_that_of_the_open_document_until_it_is_closed(
    server: OutlineServer, tmp_path: Path
) -> None:
    document = {"uri": (tmp_path / "a b.py").as_uri()}
    opened = {**document, "languageId": "python", "version": 1, "text": "class Typed: ...\n"}
    told(server, "textDocument/didOpen", {"textDocument": opened})
    assert [one["name"] for one in outline(server, document)] == ["Typed"]
    told(
        server,
        "textDocument/didChange",
        {"textDocument": {**document, "version": 2}, "contentChanges": [{"text": "def f(): ...\n"}]},
    )
    assert [one["name"] for one in outline(server, document)] == ["f"]
    assert asked(server, "workspace/symbol", {"query": "shape"}) == []
    told(server, "textDocument/didClose", {"textDocument": document})
    assert [one["name"] for one in outline(server, document)] == ["Shape"]
    assert [one["name"] for one in asked(server, "workspace/symbol", {"query": "shape"})] == ["Shape"]


def outline(server: OutlineServer, document: Any) -> Any:
    return asked(server, "textDocument/documentSymbol", {"textDocument": document})


def test_what_it_cannot_do_is_an_error_and_not_the_end(server: OutlineServer, tmp_path: Path) -> None:
    assert asked(server, "textDocument/hover", {})["code"] == METHOD_NOT_FOUND
    assert outline(server, {"uri": "https://a/b.py"})["code"] == INVALID_PARAMS
    assert outline(server, {"uri": (tmp_path / "gone.py").as_uri()})["code"] == INTERNAL_ERROR
    assert outline(server, {"uri": (tmp_path / "a.unknown").as_uri()})["code"] == INVALID_PARAMS
    told(server, "$/unknown", {"whatever": 1})


def test_exit_ends_it(server: OutlineServer) -> None:
    assert asked(server, "shutdown") is None
    assert not server.ended
    told(server, "exit")
    assert server.ended
