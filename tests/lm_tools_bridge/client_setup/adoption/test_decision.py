"""Tests which servers of a project's client files move, and that they mean the same afterwards."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_tools_bridge.client_setup.adoption.decision import WORKSPACE_FILE, Adoption, decide
from lm_tools_bridge.client_setup.refusals import Refusal
from support.examples import examples
from support.projects.config_home import ConfigHome

CLAUDE, VSCODE, CURSOR = ".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"
MEMBERS = {CLAUDE: "mcpServers", VSCODE: "servers", CURSOR: "mcpServers"}


def decided(contents: dict[str, str], *names: str) -> Adoption:
    found = decide({path: text.encode() for path, text in contents.items()}, names)
    assert isinstance(found, Adoption), found
    return found


def after(contents: dict[str, str], *names: str) -> dict[str, str]:
    changes = decided(contents, *names).changes
    return contents | {path: change.after.decode() for path, change in changes.items()}


def what_runs(home: ConfigHome) -> dict[str, dict[str, Any]]:
    """Every server that the workspace server would use, without where its entry is."""
    places = ("origin", "raw", "order")
    return {
        one.namespace: {key: value for key, value in asdict(one).items() if key not in places}
        for one in home.current().servers
    }


def runs_the_same(folder: Path, contents: dict[str, str]) -> Adoption:
    for name, texts in (("before", contents), ("after", after(contents))):
        (folder / name).mkdir()
        home = ConfigHome(folder / name)
        home.put(".env", "FROM_FILE=1\n")
        for path, text in texts.items():
            home.put(path, text)
        found = json.dumps(what_runs(home), default=repr, sort_keys=True)
        if name == "before":
            expected = found.replace("/before/", "/after/")
    assert found == expected
    return decided(contents)


def test_moved_servers_mean_the_same_to_the_workspace_server(tmp_path: Path) -> None:
    claude = {
        "everything": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "${MISSING:-everything}", "--port", 80],
            "env": {"A": "${TOKEN}", "n": 1, "quote": 'a "b" \\ ü\n'},
            "envFile": ".env",
            "cwd": "${workspaceFolder}/sub",
            "timeout": 45000,
        },
        "my docs": {"type": "http", "url": "https://docs.example/mcp", "headers": {"X-Key": "${TOKEN}"}},
        "off": {"command": "off", "disabled": True, "tools": ["get_*"]},
    }
    vscode = {"db": {"type": "http", "url": "https://db.example/", "headers": {"K": "${env:TOKEN}"}}}
    cursor = {
        "signed": {"url": "https://s.example/mcp", "auth": {"CLIENT_ID": "me", "scopes": ["a", "b"]}},
        "home": {"command": "~/bin/x", "args": ["~"]},
    }
    contents = {
        CLAUDE: json.dumps({"mcpServers": claude}),
        VSCODE: json.dumps({"servers": vscode}),
        CURSOR: json.dumps({"mcpServers": cursor}),
    }
    adoption = runs_the_same(tmp_path, contents)
    assert [one.name for one in adoption.moved] == [*claude, *vscode, *cursor]
    assert adoption.left == ()


WORDS = st.sampled_from(
    [
        "a",
        "${TOKEN}",
        "${env:TOKEN}",
        "${TOKEN:-x}",
        "${MISSING:-${TOKEN}}",
        "~/x",
        "~",
        "${workspaceFolder}",
        'ü\t"',
        "${input:x}",
        "${file}",
        "${cwd}",
        "$",
        "${",
        "${}",
        "${a.b}",
        "${workspaceFolder:proj}",
        "${cwd:-x}",
        "${workspaceFolder:-x}",
        "\x7f",
        "#",
    ]
)
PAIRS = st.dictionaries(
    st.sampled_from(["A", "B", "x.y"]), WORDS | st.integers() | st.booleans() | st.none(), max_size=2
)
STDIO = st.fixed_dictionaries(
    {"command": WORDS},
    optional={
        "args": st.lists(WORDS | st.integers() | st.booleans(), max_size=3),
        "env": PAIRS,
        "cwd": WORDS,
        "timeout": st.integers(-5, 10**7) | st.floats(allow_nan=False, allow_infinity=False),
        "disabled": st.booleans(),
        "type": st.sampled_from(["stdio", "local"]),
        "sharing": st.sampled_from(["session", "other"]),
        "tools": st.just(["*"]) | st.lists(WORDS, max_size=2),
        "description": st.just("d"),
        "envFile": st.sampled_from([".env", "none"]),
    },
)
REMOTE = st.fixed_dictionaries(
    {"url": WORDS.map(lambda word: f"https://a.example/{word}")},
    optional={
        "headers": PAIRS,
        "type": st.sampled_from(["http", "sse", "streamable-http"]),
        "oauth": st.sampled_from([{}, {"clientId": "${TOKEN}"}, {"scopes": ["a", "b"]}, {"other": 1}]),
        "token": WORDS,
        "allow_private": st.booleans(),
        "disabled": st.booleans(),
    },
)
SERVERS = st.dictionaries(st.sampled_from(["a", "b", "a.b", "a_b", "a_2", " a "]), STDIO | REMOTE, max_size=3)


@examples(150)
@given(SERVERS, SERVERS, SERVERS)
def test_any_mixture_of_entries_means_the_same_afterwards(claude: Any, vscode: Any, cursor: Any) -> None:
    servers = {CLAUDE: claude, VSCODE: vscode, CURSOR: cursor}
    contents = {path: json.dumps({MEMBERS[path]: one}) for path, one in servers.items()}
    contents[WORKSPACE_FILE] = '[[mcp.stdio_servers]]\nnamespace = "b"\ncommand = ["own"]\n'
    with tempfile.TemporaryDirectory() as folder:
        runs_the_same(Path(folder), contents)


def test_emptied_files_keep_their_form_and_their_comments() -> None:
    """Some clients complain about a file without the object of servers."""
    servers = '"servers": {\n    "a": {"command": "a"}\n  }'
    text = '{\n  // prompts\n  "inputs": [],\n  ' + servers + "\n}\n"
    found = after({VSCODE: text, CLAUDE: '{"mcpServers": {"b": {"command": "b"}}}\n'})
    assert found[VSCODE] == text.replace(servers, '"servers": {}')
    assert found[CLAUDE] == '{"mcpServers": {}}\n'


def test_comments_in_an_entry_move_and_those_between_entries_stay() -> None:
    text = '{"servers": {\n  // mine\n  "a": {\n    // why\n    "command": "a" /* how */\n  }\n}}\n'
    found = after({VSCODE: text})
    assert found[WORKSPACE_FILE].startswith("# why\n# how\n[[mcp.stdio_servers]]\n")
    assert "// mine" in found[VSCODE]


def test_workspace_toml_keeps_every_character_before_the_new_entries() -> None:
    own = "# mine\n[tools]\n\n[mcp]  # servers\n"
    found = after({WORKSPACE_FILE: own, CLAUDE: '{"mcpServers": {"a": {"command": "a"}}}'})
    assert found[WORKSPACE_FILE] == own + '\n[[mcp.stdio_servers]]\nnamespace = "a"\ncommand = ["a"]\n'


def test_servers_in_inline_arrays_are_refused_instead_of_rewritten() -> None:
    own = b"mcp = { stdio_servers = [] }\n"
    found = decide({WORKSPACE_FILE: own, CLAUDE: b'{"mcpServers": {"a": {"command": "a"}}}'})
    assert isinstance(found, Refusal)
    assert found.reason == "unsupported_form"


def test_names_that_are_taken_stay_with_the_reason() -> None:
    own = '[[mcp.remote_servers]]\nnamespace = "a b"\nurl = "https://a"\n'
    adoption = decided({WORKSPACE_FILE: own, CLAUDE: '{"mcpServers": {"a_b": {"command": "a"}}}'})
    assert adoption.changes == {}
    assert [one.reason for one in adoption.left] == [f"{WORKSPACE_FILE} has a server of this name"]


def test_one_server_in_several_files_moves_once() -> None:
    entry = {"a": {"type": "http", "url": "https://a.example"}}
    contents = {CLAUDE: json.dumps({"mcpServers": entry}), VSCODE: json.dumps({"servers": entry})}
    found = after(contents)
    assert found[WORKSPACE_FILE].count("[[") == 1
    assert (found[CLAUDE], found[VSCODE]) == ('{"mcpServers": {}}', '{"servers": {}}')


def test_the_second_of_two_different_servers_of_one_name_stays() -> None:
    contents = {
        CLAUDE: '{"mcpServers": {"a": {"command": "x", "note": 1}}}',
        VSCODE: '{"servers": {"a": {"command": "y"}}}',
        CURSOR: '{"mcpServers": {"b": {"command": "b"}}}',
    }
    adoption = decided(contents)
    assert [one.name for one in adoption.moved] == ["b"]
    assert [one.reason for one in adoption.left][1] == "another server of this name stays in .mcp.json"


def test_only_the_named_servers_move() -> None:
    contents = {CLAUDE: '{"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}'}
    found = after(contents, "b")
    assert json.loads(found[CLAUDE]) == {"mcpServers": {"a": {"command": "a"}}}
    assert 'namespace = "b"' in found[WORKSPACE_FILE] and 'namespace = "a"' not in found[WORKSPACE_FILE]


def test_a_file_that_is_not_valid_is_refused_with_its_line() -> None:
    found = decide({CLAUDE: b'{\n"mcpServers": [}\n', VSCODE: b'{"servers": {"a": {"command": "a"}}}'})
    assert isinstance(found, Refusal)
    assert (found.reason, found.line) == ("invalid_syntax", 2)


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        (WORKSPACE_FILE, "a." * 200_000 + "a = 1", "invalid_syntax"),
        (WORKSPACE_FILE, "a = " + "1" * 5_000, "invalid_syntax"),
        (WORKSPACE_FILE, "x = " + "{a.a.a.a.a.a.a.a = " * 150 + "1" + "}" * 150, "unsupported_form"),
        (
            CLAUDE,
            json.dumps({"mcpServers": {f"n{one}": {"command": "c"} for one in range(3_000)}}),
            "too_large",
        ),
        (CLAUDE, "/*" + " " * 2_000_000 + "*/", "too_large"),
    ],
)
def test_a_hostile_file_is_refused_at_once(path: str, text: str, reason: str) -> None:
    contents = {CLAUDE: b'{"mcpServers":{"a":{"command":"c"}}}', path: text.encode()}
    started = time.thread_time()
    found = decide(contents)
    assert time.thread_time() - started < 3
    assert isinstance(found, Refusal)
    assert found.reason == reason
