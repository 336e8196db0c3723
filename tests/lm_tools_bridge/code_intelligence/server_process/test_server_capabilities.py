"""What a server offers: at its start, later, and whatever a hostile one claims."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.server_process.server_capabilities import (
    MAX_REGISTRATIONS,
    ServerCapabilities,
)


def offered(**capabilities: Any) -> ServerCapabilities:
    return ServerCapabilities({"capabilities": capabilities})


@pytest.mark.parametrize(
    ("provider", "supported"),
    [(True, True), ({}, True), ({"workDoneProgress": True}, True), (False, False), (None, False)],
)
def test_a_provider_is_a_boolean_or_an_object(provider: Any, supported: bool) -> None:
    assert offered(definitionProvider=provider).supports("textDocument/definition") is supported


def test_what_depends_on_another_method_is_found_there() -> None:
    found = offered(
        callHierarchyProvider=True,
        renameProvider={"prepareProvider": True},
        codeActionProvider=True,
        diagnosticProvider={"interFileDependencies": True, "workspaceDiagnostics": False},
    )
    assert found.supports("callHierarchy/incomingCalls")
    assert not found.supports("typeHierarchy/subtypes")
    assert found.supports("textDocument/prepareRename")
    assert not found.supports("codeAction/resolve")
    assert found.supports("textDocument/diagnostic")
    assert not found.supports("workspace/diagnostic")
    assert not found.supports("textDocument/unknown")


def test_registrations_count_until_they_are_taken_back() -> None:
    found = offered()
    method, options = "textDocument/diagnostic", {"workspaceDiagnostics": True}
    found.register({"registrations": [{"id": "a", "method": method, "registerOptions": options}]})
    found.register({"registrations": [{"id": "b", "method": "workspace/didChangeWatchedFiles"}]})
    assert found.supports(method)
    assert found.supports("workspace/diagnostic")
    assert found.current["diagnosticProvider"] == options
    assert found.registrations(method) == [options]
    assert found.supports("workspace/didChangeWatchedFiles")
    found.unregister({"unregisterations": [{"id": "a", "method": method}, {"id": "unknown"}]})
    assert not found.supports(method)
    assert "diagnosticProvider" not in found.current


def test_registrations_have_an_end() -> None:
    found = offered()
    for number in range(MAX_REGISTRATIONS + 10):
        found.register({"registrations": [{"id": str(number), "method": "x"}]})
    found.register({"registrations": [{"id": "0", "method": "y"}]})
    assert len(found.registrations("x")) == MAX_REGISTRATIONS - 1
    assert found.supports("y")


@pytest.mark.parametrize(
    ("chosen", "encoding"),
    [("utf-8", "utf-8"), ("utf-16", "utf-16"), ("utf-32", "utf-32"), ("latin-1", "utf-16"), (None, "utf-16"), ([], "utf-16")],
)  # fmt: skip
def test_the_encoding_is_the_one_chosen_or_utf_16(chosen: Any, encoding: str) -> None:
    assert offered(positionEncoding=chosen).encoding == encoding
    assert offered().encoding == "utf-16"


@pytest.mark.parametrize("result", [None, 5, [], {}, {"capabilities": []}, {"capabilities": None}])
@pytest.mark.parametrize(
    "params", [None, 5, {"registrations": 5}, {"registrations": [5, {}, {"id": 1, "method": []}]}]
)
def test_nonsense_offers_nothing(result: Any, params: Any) -> None:
    found = ServerCapabilities(result)
    found.register(params)
    found.unregister(params)
    assert found.current == {}
    assert not found.supports("textDocument/definition")
