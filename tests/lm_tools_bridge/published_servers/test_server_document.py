"""Tests of reading `server.json` and the answers of registries: both spellings, and what strangers may write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.published_servers.server_document import (
    MAX_BYTES,
    ServerDocument,
    listed_servers,
    read_document,
)
from lm_tools_bridge.published_servers.server_names import Refusal

SERVER: dict[str, Any] = {
    "name": "io.example/weather",
    "version": "1.2.3",
    "description": "Tells the weather",
    "packages": [
        {
            "registryType": "npm",
            "identifier": "@example/weather",
            "version": "1.2.3",
            "transport": {"type": "stdio"},
            "environmentVariables": [{"name": "API_KEY", "isSecret": True, "isRequired": True}],
        }
    ],
}


def document_of(value: object) -> ServerDocument:
    document = read_document(json.dumps(value).encode(), "server.json")
    assert isinstance(document, ServerDocument), document
    return document


def test_a_file_and_the_answer_of_a_registry_say_the_same() -> None:
    answer = {"server": SERVER, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active"}}}
    assert document_of(SERVER) == document_of(answer)
    (package,) = document_of(SERVER).packages
    (variable,) = package.environment_variables
    assert (package.registry_type, package.identifier) == ("npm", "@example/weather")
    assert (variable.name, variable.is_secret, variable.is_required) == ("API_KEY", True, True)


def test_the_older_spelling_is_read_and_names_of_variables_keep_theirs() -> None:
    old = {
        "name": "io.example/weather",
        "version_detail": {"version": "1.2.3"},
        "remotes": [
            {
                "transport_type": "streamable",
                "url": "https://x.example/{tenant_id}",
                "variables": {"tenant_id": {"is_required": True}},
            }
        ],
        "packages": [{"registry_type": "pypi", "identifier": "weather", "environment_variables": None}],
    }
    document = document_of(old)
    (remote,) = document.remotes
    assert (document.version, remote.type) == ("1.2.3", "streamable")
    assert remote.variables["tenant_id"].is_required
    assert document.packages[0].environment_variables == ()


def test_the_state_is_that_of_the_registry_and_not_what_the_publisher_claims() -> None:
    claimed = {**SERVER, "_meta": {"io.modelcontextprotocol.registry/official": {"status": "active"}}}
    meta = {"io.modelcontextprotocol.registry/official": {"status": "deleted"}}
    assert document_of({"server": claimed, "_meta": meta}).status == "deleted"


def nested(depth: int) -> Any:
    return {"variables": {"x": nested(depth - 1)}} if depth else {}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"null", b"{", b"\xff", b"{}", b'{"name": 1}', b'{"name": ""}', b'{"name": "a", "packages": {}}',
        b'{"name": "a", "packages": [{"identifier": "x"}]}',
        b'{"name": "a", "remotes": [{"url": 1}]}',
        json.dumps({"name": "a" * 301}).encode(),
        json.dumps({"name": "a", "packages": [SERVER["packages"][0]] * 21}).encode(),
        json.dumps({"name": "a", "description": "x" * 2001}).encode(),
        b'{"name": "a"}' + b" " * MAX_BYTES,
        b"[" * 200_000,
    ],
    ids=lambda content: repr(content[:40]),
)  # fmt: skip
def test_what_describes_no_server_is_refused_whatever_it_is(content: bytes) -> None:
    refusal = read_document(content, "here\x1b")
    assert isinstance(refusal, Refusal)
    assert refusal.message.isprintable()


def test_deeply_nested_variables_are_left_out_without_recursion() -> None:
    document = document_of({**SERVER, "remotes": [{"url": "https://x.example", **nested(200)}]})
    assert document.name == "io.example/weather"


def test_a_search_leaves_out_what_cannot_be_read() -> None:
    answer = {"servers": [{"server": SERVER}, {"server": {"name": 1}}, 7], "metadata": {"nextCursor": "x"}}
    documents = listed_servers(json.dumps(answer).encode(), "registry")
    assert isinstance(documents, list)
    assert [document.name for document in documents] == ["io.example/weather"]
