"""A change is taken back in a file that others changed since, and what they wrote stays."""

from __future__ import annotations

import json

import pytest

from lm_tools_bridge.client_setup.change import BOM, FileFormat
from lm_tools_bridge.client_setup.editing.yaml_servers import YamlForm
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.undo_merge import undone
from lm_tools_bridge.text.jsonc_parser import JSON, Dialect

_COMMENTS = FileFormat("servers", Dialect(comments=True, trailing_commas=True))
_JSON = FileFormat("mcpServers", JSON)
_TOML = FileFormat("mcp", dialect=None)
_YAML = FileFormat("mcpServers", dialect=None, yaml=YamlForm())
_OURS = {"type": "http", "url": "http://127.0.0.1:47100/mcp"}


def without_us(before: str | None, after: str, now: str, form: FileFormat = _JSON) -> str | Refusal | None:
    content = None if before is None else before.encode()
    left = undone(content, after.encode(), now.encode(), form, "a.json")
    return left.decode() if isinstance(left, bytes) else left


def written(value: object, indent: int | str | None = 2) -> str:
    return json.dumps(value, indent=indent) + "\n"


def test_a_counter_that_a_client_changed_stays_and_our_entry_goes() -> None:
    before = {"numStartups": 1, "mcpServers": {}}
    after = {"numStartups": 1, "mcpServers": {"lm-tools-bridge": _OURS}}
    now = {"numStartups": 2, "mcpServers": {"lm-tools-bridge": _OURS}}
    left = without_us(written(before), written(after), written(now))
    assert isinstance(left, str)
    assert json.loads(left) == {"numStartups": 2, "mcpServers": {}}


def test_comments_of_a_moved_server_come_back_with_it() -> None:
    before = '{\n  "servers": {\n    "a": {"command": "a"},\n    // of the team\n    "b": {"command": "b"}\n  }\n}\n'
    after = '{\n  "servers": {\n    "a": {"command": "a"}\n  }\n}\n'
    now = after.replace("{\n", '{\n  "inputs": [],\n', 1)
    assert without_us(before, after, now, _COMMENTS) == before.replace("{\n", '{\n  "inputs": [],\n', 1)


@pytest.mark.parametrize("indent", [None, 4, "\t"], ids=["one line", "wider", "tabs"])
def test_a_file_that_was_written_anew_gets_its_members_back(indent: int | str | None) -> None:
    before = {"a": 1, "mcpServers": {"x": {"command": "x"}, "y": {"command": "y"}}}
    after = {"a": 1, "mcpServers": {"y": {"command": "y"}}}
    now = {"mcpServers": {"y": {"command": "y"}, "z": {"command": "z"}}, "a": 2}
    left = without_us(written(before), written(after), written(now, indent))
    assert isinstance(left, str)
    servers = {"x": {"command": "x"}, "y": {"command": "y"}, "z": {"command": "z"}}
    assert json.loads(left) == {"a": 2, "mcpServers": servers}


def test_an_object_that_we_made_goes_only_if_nobody_put_anything_into_it() -> None:
    after = {"mcpServers": {"lm-tools-bridge": _OURS}}
    theirs = {"mcpServers": {"lm-tools-bridge": _OURS, "x": {"command": "x"}}}
    left = without_us("{}\n", written(after), written(theirs, 4))
    assert isinstance(left, str)
    assert json.loads(left) == {"mcpServers": {"x": {"command": "x"}}}
    left = without_us("{}\n", written(after), written({**after, "n": 1}, 4))
    assert isinstance(left, str)
    assert json.loads(left) == {"n": 1}


def test_a_file_that_we_made_is_deleted_only_if_nothing_else_is_in_it() -> None:
    after = written({"mcpServers": {"lm-tools-bridge": _OURS}})
    assert without_us(None, after, after + "\n") is None
    left = without_us(None, after, written({"mcpServers": {"lm-tools-bridge": _OURS}, "mine": 1}))
    assert isinstance(left, str)
    assert json.loads(left) == {"mine": 1}


def test_a_server_that_was_added_to_a_workspace_toml_stays() -> None:
    ours = '[[mcp.stdio_servers]]\nnamespace = "x"\ncommand = ["x"]\n'
    mine = '\n# mine\n[[mcp.stdio_servers]]\nnamespace = "mine"\ncommand = ["mine"]\n'
    assert without_us(None, ours, ours + mine, _TOML) == mine
    assert without_us("# head\n", "# head\n\n" + ours, "# head\n\n" + ours + mine, _TOML) == "# head\n" + mine


def test_a_table_of_a_toml_file_that_was_written_anew_comes_back() -> None:
    before = 'a = 1\n\n[mcp_servers.x]\ncommand = "x"\n'
    left = without_us(
        before, "a = 1\n", "a    =    1\n[tui]\nb = 2\n", FileFormat("mcp_servers", dialect=None)
    )
    assert isinstance(left, str)
    assert '[mcp_servers.x]\ncommand = "x"' in left
    assert left.startswith("a    =    1\n[tui]\nb = 2\n")


def test_a_server_of_a_yaml_file_is_taken_out_by_lines() -> None:
    before = "name: mine\nmcpServers:\n  - name: x\n    command: x\n"
    after = (
        "name: mine\nmcpServers:\n  - name: lm-tools-bridge\n    command: lmtb\n  - name: x\n    command: x\n"
    )
    now = after.replace("name: mine", "name: yours") + "rules: []\n"
    assert without_us(before, after, now, _YAML) == before.replace("mine", "yours") + "rules: []\n"


@pytest.mark.parametrize(
    ("now", "place"),
    [
        ({"mcpServers": {"lm-tools-bridge": {**_OURS, "type": "sse"}}}, "mcpServers.lm-tools-bridge"),
        ({"mcpServers": {"lm-tools-bridge": {**_OURS, "timeout": 5}}}, "mcpServers.lm-tools-bridge"),
        ({"mcpServers": ["new form"]}, "mcpServers"),
    ],
)
def test_what_others_changed_of_our_entry_is_theirs(now: object, place: str) -> None:
    left = without_us("{}", written({"mcpServers": {"lm-tools-bridge": _OURS}}), written(now))
    assert isinstance(left, Refusal)
    assert (left.reason, left.message) == ("changed_since", f"a.json: somebody else changed {place} since")


def test_a_name_that_somebody_gave_to_another_server_is_not_overwritten() -> None:
    before, after = {"mcpServers": {"x": {"command": "x"}}}, {"mcpServers": {}}
    left = without_us(written(before), written(after), written({"mcpServers": {"x": {"command": "new"}}}))
    assert isinstance(left, Refusal)
    assert "mcpServers.x" in left.message


def test_what_somebody_took_out_already_is_no_conflict() -> None:
    after = written({"mcpServers": {"lm-tools-bridge": _OURS}, "n": 1})
    left = without_us(written({"n": 1}), after, written({"n": 2}))
    assert isinstance(left, str)
    assert json.loads(left) == {"n": 2}


def test_a_file_that_is_no_json_any_more_is_refused_with_its_line() -> None:
    left = without_us("{}", written({"mcpServers": {}}), '{\n  "broken": \n')
    assert isinstance(left, Refusal)
    assert left.reason == "invalid_syntax"
    assert left.line is not None


def test_a_byte_order_mark_and_line_ends_of_windows_stay() -> None:
    before = written({"n": 1, "mcpServers": {}}).replace("\n", "\r\n")
    after = written({"n": 1, "mcpServers": {"lm-tools-bridge": _OURS}}).replace("\n", "\r\n")
    now = after.replace('"n": 1', '"n": 2')
    left = undone(BOM + before.encode(), BOM + after.encode(), BOM + now.encode(), _JSON, "a.json")
    assert left == BOM + before.replace('"n": 1', '"n": 2').encode()
