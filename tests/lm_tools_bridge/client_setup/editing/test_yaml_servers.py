"""Tests reading, adding and removing the servers of a YAML file."""

from __future__ import annotations

from typing import Any

import pytest

from lm_tools_bridge.client_setup.editing.yaml_servers import YamlForm, value_at, with_server, without_server
from lm_tools_bridge.client_setup.refusals import FormProblem
from lm_tools_bridge.text.syntax_problems import SyntaxProblem

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


PATH = ("mcpServers", "ours")
ENTRY = {"command": "/opt/lmtb", "args": ["connect"]}
CHANGEABLE = [
    "name: me\nmodels:\n  - name: a  # x\n    prompt: |\n      # no comment\n",
    "# c\nmcpServers:\n  # first\n  - name: x\n    args:\n      - b   # why\n\n  # second\n  - name: y\n    env: {A: b}\n# z\nz: 1\n",
    "mcpServers:\n- name: x\n  command: a\n",
    "a: 1\r\nmcpServers:\r\n  - name: x\r\n    command: a\r\n",
    "mcpServers:   # mine\n  - name: x\n    text: >-\n      folded\n\n      text\nz: 1\n",
]


@pytest.mark.parametrize("text", CHANGEABLE)
def test_a_server_is_added_changed_and_removed_and_every_other_line_stays(text: str) -> None:
    added = with_server(text, PATH, ENTRY)
    assert isinstance(added, str)
    assert value_at(added, PATH) == ENTRY
    assert set(text.splitlines()) < set(added.splitlines())
    assert ("\r\n" in text) == ("\r\n" in added) and added.count("\r") in {0, added.count("\n")}
    changed = with_server(added, PATH, {**ENTRY, "env": {"A": "é"}})
    assert isinstance(changed, str)
    assert value_at(changed, PATH) == {**ENTRY, "env": {"A": "é"}}
    assert without_server(changed, PATH) == text


@pytest.mark.parametrize(
    "text",
    [
        "mcpServers: []\n",
        "mcpServers: [{name: x}]\n",
        '{"name": "me"}\n',
        "a: 1\n...\n",
        "mcpServers:\n  -\n    name: x\n",
        "mcpServers: &a\n  - name: x\n",
        "- a\n",
    ],
)
def test_a_text_in_another_form_is_left_to_its_user(text: str) -> None:
    assert isinstance(with_server(text, PATH, ENTRY), FormProblem)


def test_a_change_that_would_lose_a_comment_is_left_to_its_user() -> None:
    text = "mcpServers:\n  - name: ours\n    # mine\n    command: a\n  - name: x\n"
    assert isinstance(with_server(text, PATH, ENTRY), FormProblem)
    assert isinstance(without_server(text, PATH), FormProblem)


OBJECT = YamlForm(is_list=False, members=(("cmd", "command"), ("uri", "url")))
EXTENSIONS = """\
# mine
GOOSE_MODE: auto  # always
extensions:
  # of others
  developer:
    enabled: true
    type: builtin
  docs:
    uri: http://127.0.0.1:5/mcp  # here
GOOSE_MODEL: x
"""
OURS = ("extensions", "ours")


def test_servers_of_an_object_are_read_with_the_usual_names_of_members() -> None:
    assert value_at(EXTENSIONS, ("extensions", "docs"), OBJECT) == {"url": "http://127.0.0.1:5/mcp"}
    assert value_at(EXTENSIONS, ("GOOSE_MODEL",), OBJECT) == "x"


@pytest.mark.parametrize(
    "text", [EXTENSIONS, "a: 1\n", "extensions:\na: 1\n", "extensions:\n    x:\n        y: 1\n"]
)
def test_a_server_of_an_object_is_added_changed_and_taken_out_and_all_else_stays(text: str) -> None:
    added = with_server(text, OURS, ENTRY, OBJECT)
    assert isinstance(added, str)
    assert "cmd: /opt/lmtb" in added
    assert value_at(added, OURS, OBJECT) == ENTRY
    changed = with_server(added, OURS, {**ENTRY, "timeout": 5}, OBJECT)
    assert isinstance(changed, str)
    assert value_at(changed, OURS, OBJECT) == {**ENTRY, "timeout": 5}
    assert set(text.splitlines()) <= set(changed.splitlines())
    taken_out = without_server(changed, OURS, OBJECT)
    assert taken_out == text.replace("extensions:\na", "a")


@pytest.mark.parametrize(
    "text",
    ["extensions: {}\n", "extensions: {a: {b: 1}}\n", "extensions:\n- a\n", "extensions: &x\n  a: {}\n"],
)
def test_an_object_in_another_form_is_left_to_its_user(text: str) -> None:
    assert isinstance(with_server(text, OURS, ENTRY, OBJECT), FormProblem)
