"""Tests reading the servers of a YAML file."""

from __future__ import annotations

from typing import Any

import pytest

from manager.client_files.editing.yaml_servers import value_at
from manager.client_files.refusals import FormProblem, SyntaxProblem

FILE = """\
# mine
name: me
mcpServers:
  - name: first
    command: a
  - name: second
    url: http://127.0.0.1:5/mcp
  - without a name
"""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mcpServers", "first"), {"command": "a"}),
        (("mcpServers", "second", "url"), "http://127.0.0.1:5/mcp"),
        (("mcpServers", "third"), None),
        (("missing", "first"), None),
        (("name",), "me"),
    ],
)
def test_the_objects_of_a_list_are_found_by_their_names(path: tuple[str, ...], value: Any) -> None:
    assert value_at(FILE, path) == value


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n"])
def test_an_empty_file_has_nothing(text: str) -> None:
    assert value_at(text, ("mcpServers", "first")) is None


@pytest.mark.parametrize(
    ("text", "line"), [("a: 1\nb: [\n", 3), ("a: 1\n\tb: 2\n", 2), ("a: !!python/none\n", 1)]
)
def test_what_cannot_be_parsed_is_refused_with_its_line(text: str, line: int) -> None:
    problem = value_at(text, ("mcpServers",))
    assert isinstance(problem, SyntaxProblem)
    assert problem.line == line


@pytest.mark.parametrize("text", ["- a\n", "mcpServers: text\n"])
def test_another_value_where_servers_should_be_is_refused(text: str) -> None:
    assert isinstance(value_at(text, ("mcpServers", "first")), FormProblem)
