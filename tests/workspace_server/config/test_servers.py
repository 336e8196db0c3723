"""Servers are read from all configuration files and merged."""

from __future__ import annotations

import re
from typing import Any

import pytest

from support.projects.config_home import ConfigHome
from workspace_server.config.model import RemoteServer, StdioServer
from workspace_server.config.servers import MAX_SERVERS

FULL_STDIO = """
[[mcp.stdio_servers]]
namespace = "os"
command = ["~/bin/os", "--root", "${workspaceFolder}", "${NOPE:-none}"]
env = { A = "${TOKEN}", PATH = "/x" }
cwd = "sub"
enabled = true
tool_visibility = { "*" = "ondemand", run = "always" }
separator = "_"
include = ["r*"]
exclude = ["rm*"]
keywords = ["shell"]
default = "exposed"
timeout_s = 600
sharing = "session"
"""
FULL_REMOTE = """
[[mcp.remote_servers]]
namespace = "hub"
url = "https://hub.example/mcp/"
token = "${env:TOKEN}"
auth = "oauth"
client_id = "id"
client_secret = "sec"
scope = "a b"
headers = { X-A = "${TOKEN}" }
transport = "sse"
allow_private = true
tool_visibility = "ondemand"
separator = "-"
include = ["a"]
exclude = ["b"]
keywords = ["k"]
default = "off"
enabled = false
timeout_s = 1
"""


def test_every_key_of_a_stdio_server(home: ConfigHome) -> None:
    home.user(FULL_STDIO)
    (found,) = home.current().stdio
    raw = found.raw
    assert found == StdioServer(
        namespace="os",
        command=("/home/ada/bin/os", "--root", str(home.root), "none"),
        origin=found.origin,
        env={"A": "s3cret", "PATH": "/x"},
        cwd=str(home.root / "sub"),
        visibility="ondemand",
        visibilities={"run": "always"},
        separator="_",
        include=("r*",),
        exclude=("rm*",),
        keywords=("shell",),
        default="exposed",
        timeout_s=600.0,
        sharing="session",
        raw=raw,
        defaulted=("NOPE",),
    )
    assert raw["env"]["A"] == "${TOKEN}"
    assert "s3cret" not in repr(found)
    assert home.codes() == []


def test_every_key_of_a_remote_server(home: ConfigHome) -> None:
    home.user(FULL_REMOTE)
    (found,) = home.current().remote
    assert found == RemoteServer(
        namespace="hub",
        url="https://hub.example/mcp/",
        origin=found.origin,
        token="s3cret",
        auth="oauth",
        client_id="id",
        client_secret="sec",
        scope="a b",
        headers={"X-A": "s3cret"},
        transport="sse",
        allow_private=True,
        enabled=False,
        visibility="ondemand",
        separator="-",
        include=("a",),
        exclude=("b",),
        keywords=("k",),
        default="off",
        timeout_s=1.0,
        raw=found.raw,
    )
    assert "s3cret" not in repr(found)
    assert "'sec'" not in repr(found)
    assert home.codes() == []


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('command = ["x"]', "nameless"), ('namespace = " "\ncommand = ["x"]', "nameless"),
        ('namespace = "bad"', "stdio"), ('namespace = "bad"\ncommand = "x"', "stdio"),
        ('namespace = "bad"\ncommand = []', "stdio"), ('namespace = "bad"\ncommand = [""]', "stdio"),
        ('namespace = "bad"\ncommand = ["x", 1]', "stdio"), ('namespace = "bad"\ncommand = ["x\\u0000"]', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nseparator = "."', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\ntimeout_s = 0.5', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\ntimeout_s = 601', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\ntimeout_s = "9"', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\ndefault = "on"', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\ntool_visibility = "hidden"', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\ntool_visibility = { a = 1 }', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nenabled = "yes"', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nenv = { A = [] }', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nenv = { "A=B" = "" }', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nenv_secrets = { "A=B" = "a" }', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nenv_secrets = { A = "" }', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nenv_secrets = { NODE_OPTIONS = "a" }', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nsharing = "all"', "stdio"),
        ('namespace = "bad"\ncommand = ["x"]\nenv_file = "none.env"', "stdio"),
        ('namespace = "bad"', "remote"), ('namespace = "bad"\nurl = "ftp://x.example"', "remote"),
        ('namespace = "bad"\nurl = "https://"', "remote"), ('namespace = "bad"\nurl = "unix:///x"', "remote"),
        ('namespace = "bad"\nurl = "https://u:p@x.example"', "remote"),
        ('namespace = "bad"\nurl = "https://u@x.example"', "remote"),
        ('namespace = "bad"\nurl = "https://x.example:99999"', "remote"),
        ('namespace = "bad"\nurl = "https://x.example/ a"', "remote"),
        ('namespace = "bad"\nurl = "https://x.example"\ntoken = "a"\ntoken_env = "b"', "remote"),
        ('namespace = "bad"\nurl = "https://x.example"\ntoken_env = "a"\ntoken_secret = "b"', "remote"),
        ('namespace = "bad"\nurl = "https://x.example"\nheaders = { "a b" = "c" }', "remote"),
        ('namespace = "bad"\nurl = "https://x.example"\nheaders = { a = "c\\r\\nd: e" }', "remote"),
        ('namespace = "bad"\nurl = "https://x.example"\nauth = "basic"', "remote"),
    ],
)  # fmt: skip
def test_an_invalid_entry_is_skipped_by_name_and_others_are_used(
    home: ConfigHome, line: str, kind: str
) -> None:
    table = "remote_servers" if kind == "remote" else "stdio_servers"
    home.workspace(f'[[mcp.{table}]]\n{line}\n[[mcp.stdio_servers]]\nnamespace = "good"\ncommand = ["g"]\n')
    found = home.current()
    assert [one.namespace for one in found.servers] == ["good"]
    (issue,) = found.issues
    assert (issue.level, issue.code) == ("warning", "CONFIG_ENTRY_SKIPPED")
    entry = f"mcp.{table}[1]" if kind == "nameless" else "bad"
    assert re.match(
        rf'.lm-tools-bridge/workspace.toml, entry "{re.escape(entry)}", line [1-4]: ', issue.message
    )


def test_entries_for_claude_code(home: ConfigHome) -> None:
    """`.mcp.json`."""
    home.put(
        ".mcp.json",
        {
            "mcpServers": {
                "a": {
                    "type": "stdio",
                    "command": "npx",
                    "args": ["-y", "a", 7],
                    "env": {"X": "${TOKEN}", "N": 1},
                },
                "b": {"command": "${NOPE:-node}", "args": ["~", "${PWD}", "${A:-${TOKEN}}", "$HOME", "${1}"]},
                "c": {
                    "type": "http",
                    "url": "https://c.example/mcp/",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
                "d": {"type": "sse", "url": "https://d.example/sse"},
                "e": {"type": "streamable-http", "url": "${NOPE:-https://e.example}/mcp", "timeout": 5000},
                "f": {"url": "https://f.example", "oauth": {"clientId": "me", "scopes": ["r", "w"]}},
                "g": {"command": "g", "timeout": 3_600_000, "tools": ["x"], "disabled": True},
                "h": {"type": "local", "command": "h", "tools": ["*"], "alwaysAllow": ["rm"]},
            }
        },
    )
    found = home.current()
    stdio = {one.namespace: one for one in found.stdio}
    remote = {one.namespace: one for one in found.remote}
    assert (stdio["a"].command, stdio["a"].env) == (("npx", "-y", "a", "7"), {"X": "s3cret", "N": "1"})
    assert stdio["a"].cwd == str(home.root)
    assert stdio["b"].command == ("node", "~", str(home.root), "s3cret", "$HOME", "${1}")
    assert remote["c"].headers == {"Authorization": "Bearer s3cret"}
    assert [remote[name].transport for name in "cdef"] == ["http", "sse", "http", "auto"]
    assert (remote["e"].url, remote["e"].timeout_s) == ("https://e.example/mcp", 5.0)
    assert (remote["f"].auth, remote["f"].client_id, remote["f"].scope) == ("oauth", "me", "r w")
    assert (stdio["g"].timeout_s, stdio["g"].include, stdio["g"].enabled) == (600.0, ("x",), False)
    assert stdio["h"].include == ()
    assert home.codes() == ["CONFIG_KEY_REFUSED"]
    assert not any(one.allow_private for one in found.remote)


def test_entries_for_vs_code(home: ConfigHome) -> None:
    """`.vscode/mcp.json`."""
    home.put("secrets.env", "export A=1\n# no\nB=\"two \\n lines\"\nC='x # y'\nnonsense\nD=4 # four\n")
    home.put(
        ".vscode/mcp.json",
        """{
          // comments, and commas at the end
          "inputs": [{"id": "key", "type": "promptString"}],
          "servers": {
            "a": {"type": "stdio", "command": "~/bin/a", "args": ["${workspaceFolder}/x", "~", "${HOME}", "${env:TOKEN}"],
                  "env": {"B": "own", "GONE": null, "FOLDER": "${workspaceFolderBasename}"},
                  "envFile": "${workspaceFolder}/secrets.env", "cwd": "~/work", "dev": {"watch": "*"}},
            "b": {"type": "http", "url": "http://b.example:8080/mcp"},
            "http://odd": {"type": "sse", "url": "https://u.example/https://v"}, /* a URL is no comment */
          },
        }""",
    )
    found = home.current()
    (a,) = found.stdio
    assert a.command == ("/home/ada/bin/a", f"{home.root}/x", "/home/ada", "${HOME}", "s3cret")
    assert a.env == {"A": "1", "B": "own", "C": "x # y", "D": "4", "FOLDER": "proj"}
    assert a.cwd == "/home/ada/work"
    assert list(a.files) == ["${workspaceFolder}/secrets.env"]
    assert [(one.namespace, one.transport) for one in found.remote] == [("b", "auto"), ("http___odd", "sse")]
    assert found.remote[1].url == "https://u.example/https://v"
    assert home.codes() == []


def test_entries_for_cursor(home: ConfigHome) -> None:
    """`.cursor/mcp.json`."""
    home.put(
        ".cursor/mcp.json",
        """{"mcpServers": {
          "a": {"command": "${userHome}/a", "args": ["${workspaceFolder}${/}b"],},
          "b": {"url": "https://b.example/mcp", "headers": {"K": "${env:TOKEN}"},
                "auth": {"CLIENT_ID": "i", "CLIENT_SECRET": "s", "scopes": ["x"]}},
        }}""",
    )
    found = home.current()
    assert found.stdio[0].command == ("/home/ada/a", f"{home.root}/b")
    remote = found.remote[0]
    assert (remote.transport, remote.auth, remote.client_id, remote.client_secret) == (
        "auto",
        "oauth",
        "i",
        "s",
    )
    assert remote.headers == {"K": "s3cret"}
    assert home.codes() == []


def test_a_changed_environment_file_reloads_the_configuration(home: ConfigHome) -> None:
    home.put("x.env", "A=1")
    home.put(".vscode/mcp.json", {"servers": {"a": {"command": "a", "envFile": "${workspaceFolder}/x.env"}}})
    assert home.current().stdio[0].env == {"A": "1"}
    home.put("x.env", "A=2")
    found = home.current()
    assert (found.stdio[0].env, found.stdio[0].files["${workspaceFolder}/x.env"]) == ({"A": "2"}, b"A=2")
    (home.root / "x.env").unlink()
    assert home.codes() == ["CONFIG_ENTRY_SKIPPED"]


@pytest.mark.parametrize(
    ("file", "member", "written", "name"),
    [
        (".mcp.json", "mcpServers", "${NOPE}", "NOPE"),
        (".mcp.json", "mcpServers", "${input:key}", "input:key"),
        (".mcp.json", "mcpServers", "${env:NOPE}", "NOPE"),
        (".vscode/mcp.json", "servers", "${input:key}", "input:key"),
        (".vscode/mcp.json", "servers", "${env:NOPE}", "NOPE"),
        (".vscode/mcp.json", "servers", "${command:pick}", "command:pick"),
        (".vscode/mcp.json", "servers", "${file}", "file"),
        (".vscode/mcp.json", "servers", "${workspaceFolder:other}", "workspaceFolder:other"),
        (".cursor/mcp.json", "mcpServers", "${env:NOPE}", "NOPE"),
    ],
)
@pytest.mark.parametrize("where", ["command", "args", "env", "url", "headers"])
def test_a_placeholder_without_a_value_keeps_its_server_from_starting(
    home: ConfigHome, file: str, member: str, written: str, name: str, where: str
) -> None:
    entries: dict[str, dict[str, Any]] = {
        "command": {"command": written},
        "args": {"command": "x", "args": [f"a{written}b"]},
        "env": {"command": "x", "env": {"A": written}},
        "url": {"url": f"https://{written}"},
        "headers": {"url": "https://x.example", "headers": {"A": written}},
    }
    home.put(
        file,
        {
            member: {
                "bad": entries[where],
                "good": {"command": "y"},
                "off": {**entries[where], "disabled": True},
            }
        },
    )
    found = home.current()
    assert [one.namespace for one in found.servers if one.enabled] == ["good"]
    (issue,) = found.issues
    assert (issue.level, issue.code) == ("error", "CONFIG_UNRESOLVED_VARIABLE")
    assert issue.message.startswith(f'{file}, entry "bad", line 1: {name} has no value')
    assert ('"env_file"' in issue.message) is (name == "NOPE")


def test_values_are_not_expanded_again(home: ConfigHome) -> None:
    environ: dict[str, str] = home.configurations._variables.environ
    environ["TWICE"] = "${TOKEN}"
    try:
        home.put(
            ".mcp.json",
            {"mcpServers": {"a": {"command": "x", "args": ["${TWICE}", "${EMPTY}", "${EMPTY:-d}"]}}},
        )
        assert home.current().stdio[0].command == ("x", "${TOKEN}", "", "")
    finally:
        del environ["TWICE"]


def test_a_workspace_cannot_set_variables_that_control_loading(home: ConfigHome) -> None:
    env = {
        "PATH": "/evil",
        "LD_PRELOAD": "x",
        "NODE_OPTIONS": "y",
        "git_dir": "z",
        "F": "() { :; }",
        "OK": "1",
    }
    home.put(".mcp.json", {"mcpServers": {"a": {"command": "x", "env": env}}})
    assert home.current().stdio[0].env == {"OK": "1"}
    (issue,) = home.current().issues
    assert issue.code == "CONFIG_ENVIRONMENT_REFUSED"
    assert "LD_PRELOAD" in issue.message
    assert "evil" not in issue.message


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "http://127.0.0.1:47100/mcp"}, {"url": "http://localhost:47100/mcp?cwd=${PWD}"},
        {"url": "http://[::1]:47100/w/abc/mcp"}, {"url": "http://0x7f.1:47100/mcp/"},
        {"url": "http://[::ffff:127.0.0.1]:4711/mcp"}, {"url": "http://LOCALHOST.:4711/mcp"},
        {"command": "lmtb", "args": ["connect"]}, {"command": "/usr/bin/lm-tools-bridge", "args": ["-v", "connect"]},
        {"command": "uvx", "args": ["lm-tools-bridge@latest", "connect"]},
        {"command": "npx", "args": ["mcp-remote", "http://127.0.0.1:47100/mcp"]},
        {"command": "C:\\bin\\lmtb.exe", "args": ["connect"]},
    ],
)  # fmt: skip
def test_entries_that_point_to_the_manager_are_skipped(home: ConfigHome, entry: dict[str, Any]) -> None:
    home.configurations._ports.add(4711)
    home.put(".mcp.json", {"mcpServers": {"me": entry}})
    found = home.current()
    assert (found.stdio, found.remote) == ((), ())
    assert [(issue.level, issue.code) for issue in found.issues] == [("warning", "CONFIG_SELF_REFERENCE")]


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "http://127.0.0.1:3000/mcp"}, {"url": "http://example.com:47100/mcp"},
        {"url": "http://127.0.0.1:47100/other"}, {"command": "lmtb", "args": ["status"]},
        {"command": "connect", "args": ["lmtb"]}, {"command": "x", "args": ["http://[bad/mcp"]},
    ],
)  # fmt: skip
def test_entries_that_only_resemble_the_manager_are_kept(home: ConfigHome, entry: dict[str, Any]) -> None:
    home.put(".mcp.json", {"mcpServers": {"me": entry}})
    found = home.current()
    assert len(found.stdio) + len(found.remote) == 1
    assert found.issues == ()


def test_a_namespace_used_twice_gets_a_suffix_with_a_warning(home: ConfigHome) -> None:
    """Alike is one server, the first; different ones share no name, whatever their kind."""
    home.user('[[mcp.stdio_servers]]\nnamespace = "a"\ncommand = ["x"]\ntimeout_s = 9\n')
    home.put(
        ".mcp.json", {"mcpServers": {"a": {"command": "x"}, "b.c": {"command": "y"}, "b c": {"command": "z"}}}
    )
    home.put(".cursor/mcp.json", {"mcpServers": {"a": {"url": "https://a.example"}, "b_c": {"command": "z"}}})
    found = home.current()
    names = [one.namespace for one in found.servers]
    assert names == ["a", "b_c", "b_c_2", "a_2"]
    assert found.stdio[0].timeout_s == 9
    assert [issue.code for issue in found.issues] == ["CONFIG_NAMESPACE_CLASH"] * 2
    assert '"a_2"' in found.issues[1].message


MEMORY = '[[mcp.stdio_servers]]\nnamespace = "memory"\ncommand = ["mine"]\n'


def commands(home: ConfigHome) -> dict[str, str]:
    return {server.namespace: server.command[0] for server in home.current().stdio}


def test_the_projects_server_is_used_in_place_of_the_users_of_its_name_as_clients_do(
    home: ConfigHome,
) -> None:
    home.user(MEMORY)
    home.put(".mcp.json", {"mcpServers": {"memory": {"command": "theirs"}}})
    assert commands(home) == {"memory": "theirs"}
    (issue,) = home.current().issues
    assert issue.code == "CONFIG_NAMESPACE_HIDDEN"
    assert 'the project has another server "memory", which is used here instead' in issue.message
    home.put(".mcp.json", {"mcpServers": {"memory": {"command": "theirs", "disabled": True}}})
    assert commands(home)["memory"] == "mine"
    home.put(".mcp.json", {"mcpServers": {"memory": {"command": "lmtb", "args": ["connect"]}}})
    assert commands(home) == {"memory": "mine"}


def test_a_server_of_the_user_for_this_project_alone_is_nearer_than_the_projects(home: ConfigHome) -> None:
    home.user(f'{MEMORY}projects = ["{home.root}"]\n')
    home.put(".mcp.json", {"mcpServers": {"memory": {"command": "theirs"}}})
    assert commands(home) == {"memory": "mine"}
    assert "your own workspace.toml has another server" in home.current().issues[0].message


def test_servers_beyond_the_cap_are_left_out(home: ConfigHome) -> None:
    home.put(".mcp.json", {"mcpServers": {f"s{i}": {"command": f"c{i}"} for i in range(MAX_SERVERS + 5)}})
    found = home.current()
    assert len(found.stdio) == MAX_SERVERS
    assert home.codes() == ["CONFIG_TOO_MANY_SERVERS"]


@pytest.mark.parametrize(
    "entry", ["text", 1, None, [], {}, {"type": "ws", "url": "https://x.example"}, {"type": 1, "command": "x"},
              {"command": ""}, {"command": ["x"]}, {"command": "x", "args": "y"}, {"command": "x", "args": [None]},
              {"type": "http", "command": "x"}, {"command": "x", "timeout": "1"}, {"url": "https://x.example", "oauth": 1},
              {"command": "x", "disabled": "no"}],
)  # fmt: skip
def test_a_bad_imported_entry_is_skipped_by_name(home: ConfigHome, entry: object) -> None:
    home.put(".mcp.json", {"mcpServers": {"\x1b[31mbad\u202e": entry, "good": {"command": "g"}}})
    found = home.current()
    assert [one.namespace for one in found.servers] == ["good"]
    assert [issue.code for issue in found.issues] == ["CONFIG_ENTRY_SKIPPED"]
    assert re.match('.mcp.json, entry "bad"(, line 1)?: ', found.issues[0].message)


def test_an_empty_namespace_leaves_the_tools_their_own_names(home: ConfigHome) -> None:
    """The entry is then called by its key, and in TOML, which has no keys, by a word of ours."""
    home.user('[[mcp.stdio_servers]]\nnamespace = ""\ncommand = ["one"]\n')
    home.workspace('[[mcp.remote_servers]]\nnamespace = ""\nurl = "https://two.example"\n')
    three = {"command": "three", "namespace": ""}
    home.put(".mcp.json", {"mcpServers": {"three": three, "four": {"command": "four"}}})
    found = [(one.namespace, one.bare) for one in home.current().servers]
    assert found == [("server", True), ("server_2", True), ("three", True), ("four", False)]
    assert home.codes() == ["CONFIG_NAMESPACE_CLASH"]


def test_arguments_that_are_no_strings_are_written_as_in_json(home: ConfigHome) -> None:
    home.put(".mcp.json", {"mcpServers": {"s": {"command": "x", "args": ["--port", 8080, True, False, 0.5]}}})
    assert home.current().stdio[0].command == ("x", "--port", "8080", "true", "false", "0.5")


@pytest.mark.parametrize(
    "address", ["http://h/mcp/", "http://h/?root=/data/", "http://h//", "http://H:80/A%2f/#x"]
)
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_an_address_stays_as_it_is_written(home: ConfigHome, address: str, enabled: str) -> None:
    home.user(f'[[mcp.remote_servers]]\nnamespace = "r"\nurl = "{address}"\nenabled = {enabled}\n')
    assert [server.url for server in home.current().remote] == [address]
