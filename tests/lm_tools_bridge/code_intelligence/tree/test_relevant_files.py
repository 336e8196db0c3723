"""Which files matter to a kind of server."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from lm_tools_bridge.code_intelligence.tree.relevant_files import (
    Relevance,
    relevance_of,
    relevance_of_watchers,
)

CPP = ServerSpecification(
    "clangd", {".cpp": "cpp", ".h": "cpp"}, (("clangd",),), markers=("build/extra.json",)
)


@pytest.mark.parametrize(
    "name", ["a.cpp", "a.b.h", "x.inc", "compile_commands.json", ".clangd", "extra.json"]
)
def test_sources_project_files_and_markers_matter(name: str) -> None:
    assert relevance_of(CPP).includes(name)


@pytest.mark.parametrize("name", ["a.py", "cpp", "a.", "a.cppx", "package.json", "b"])
def test_other_files_do_not(name: str) -> None:
    assert not relevance_of(CPP).includes(name)


def test_a_language_known_by_the_whole_file_name_matters() -> None:
    docker = ServerSpecification("docker", {"Dockerfile": "dockerfile"}, (("x",),))
    assert relevance_of(docker).includes("Dockerfile")


def test_json_matters_to_typescript_because_a_configuration_may_extend_any_file() -> None:
    typescript = ServerSpecification("ts", {".ts": "typescript"}, (("x",),))
    assert relevance_of(typescript).includes("base.json")


def test_what_a_server_registers_matters_too() -> None:
    watchers = [
        {"globPattern": "**/*.{pyi,cfg}"},
        {"globPattern": {"baseUri": "file:///p", "pattern": "src/pixi.toml"}},
        {"globPattern": "**/{a,b}.lock"},
        {"globPattern": "**/*"},
    ]
    assert relevance_of_watchers([{"watchers": watchers}]) == Relevance(
        frozenset({".pyi", ".cfg"}), frozenset({"pixi.toml", "a.lock", "b.lock"})
    )


@pytest.mark.parametrize(
    "options",
    [{}, {"watchers": 3}, {"watchers": [3, {}, {"globPattern": 4}, {"globPattern": {"pattern": None}}]}]
    + [{"watchers": [{"globPattern": pattern}]} for pattern in ("", "{", "}{", "*" * 10**6, "a{b", "**/[")],
)
def test_registrations_that_make_no_sense_add_nothing_to_the_look(options: dict[str, Any]) -> None:
    relevance = relevance_of_watchers([options])
    assert not relevance.suffixes
    assert relevance.names <= {"}{"}
