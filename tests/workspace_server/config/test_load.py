"""The configuration is loaded and reloaded from real files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from support.projects.config_home import ConfigHome, later
from workspace_server.config import policy
from workspace_server.config.grouping import DEFAULT_RULES
from workspace_server.config.model import Configuration, PolicyDeltas, ScriptSettings
from workspace_server.config.watched_file import MAX_BYTES, WatchedFile

STDIO = """
[[mcp.stdio_servers]]
namespace = "{name}"
command = ["{name}-server", "--x"]
"""


def test_without_files_defaults_apply(home: ConfigHome) -> None:
    found = home.current()
    assert found == Configuration(
        policy_file=home.user_file,
        call_timeout_file=home.user_file,
        grouping_rules=DEFAULT_RULES,
        features=found.features,
    )
    assert home.current() is found


def test_a_time_limit_is_named_with_the_file_that_sets_it(home: ConfigHome) -> None:
    home.user("call_timeout_s = 30\n")
    assert home.current().call_timeout_setting == f"call_timeout_s in {home.user_file}"
    home.workspace("call_timeout_s = 40\n")
    assert home.current().call_timeout_setting == f"call_timeout_s in {home.own_file}"


def test_servers_come_in_configuration_order(home: ConfigHome) -> None:
    """User, workspace, `.mcp.json`, `.vscode/mcp.json`, `.cursor/mcp.json`."""
    home.put(".cursor/mcp.json", {"mcpServers": {"e": {"command": "e"}}})
    home.put(".vscode/mcp.json", {"servers": {"d": {"type": "http", "url": "https://d.example"}}})
    home.put(".mcp.json", {"mcpServers": {"z": {"command": "c"}, "c": {"url": "https://c.example/mcp/"}}})
    home.workspace(STDIO.format(name="b"))
    home.user(STDIO.format(name="a"))
    found = home.current()
    assert [one.namespace for one in found.servers] == ["a", "b", "z", "c", "d", "e"]
    assert [one.origin.scope for one in found.servers] == ["user", *["workspace"] * 5]
    assert [one.origin.file.name for one in found.stdio][:2] == ["workspace.toml", "workspace.toml"]
    assert found.issues == ()


def test_a_server_of_the_user_can_be_for_some_projects_only(home: ConfigHome) -> None:
    here, there = f'projects = ["/nowhere", "{home.root}/"]', 'projects = ["/nowhere"]'
    entries = {"a": here, "b": there, "c": "projects = 1"}
    home.user("".join(STDIO.format(name=name) + line for name, line in entries.items()))
    found = home.current()
    assert [one.namespace for one in found.stdio] == ["a"]
    assert [issue.code for issue in found.issues] == ["CONFIG_ENTRY_SKIPPED"]


def test_a_project_cannot_choose_projects(home: ConfigHome) -> None:
    home.workspace(STDIO.format(name="a") + 'projects = ["/nowhere"]')
    assert [one.namespace for one in home.current().stdio] == ["a"]
    assert home.codes() == ["CONFIG_UNKNOWN_KEY"]


def test_every_change_is_seen_at_the_next_refresh(home: ConfigHome) -> None:
    """Same length, same second; appearing, disappearing."""
    assert home.current().stdio == ()
    file = home.workspace(STDIO.format(name="a"))
    assert [one.namespace for one in home.current().stdio] == ["a"]
    times = file.stat()
    file.write_text(STDIO.format(name="b"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [one.namespace for one in home.current().stdio] == ["b"]
    file.unlink()
    assert home.current().stdio == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a." * 400_000 + "a = 1", "line 1, column 1: a name has more than 16 parts"),
        ("[tools]\n[" + "a." * 400_000 + "a]", "line 2, column 1: a name has more than 16 parts"),
        ("[scripts]\ntools_path = [" + '"x",' * 200_000 + "]", "50 folders"),
        ('[scripts]\ntools_path = ["' + "x/" * 400_000 + '"]', "1024 characters"),
        ("".join(f"k{number} = 1\n" for number in range(50_000)), "and 49990 more; it is ignored"),
        ("[approvals]\n" + "".join(f'k{number} = "allow"\n' for number in range(40_000)), "and 39990 more"),
    ],
)
def test_a_hostile_file_costs_one_short_issue(home: ConfigHome, text: str, said: str) -> None:
    home.workspace(text)
    started = time.thread_time()
    (issue,) = home.current().issues
    assert time.thread_time() - started < 5
    assert said in issue.message
    assert len(issue.message) < 400


@pytest.mark.parametrize(("age_ns", "seen"), [(0, True), (3_600 * 10**9, False)])
def test_a_file_changed_less_than_2_s_ago_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_ns: int, seen: bool
) -> None:
    """Two changes within what a file system calls the same moment."""
    file = tmp_path / "x"
    file.write_bytes(b"a")
    status = file.stat()
    watched = WatchedFile(file, bytes, b"", lambda: status.st_ctime_ns + age_ns)
    assert watched.refresh()
    monkeypatch.setattr(os, "stat", lambda _: status)
    file.write_bytes(b"b")
    assert watched.refresh() is seen
    assert watched.value == (b"b" if seen else b"a")
    assert not watched.refresh()


def test_an_unreadable_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"a")
    watched = WatchedFile(file, bytes, b"", later)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", _too_many)
        assert watched.refresh()
        assert watched.problem is not None
    assert watched.refresh()
    assert watched.value == b"a"
    assert watched.problem is None
    assert not watched.refresh()


def _too_many(*_: object) -> int:
    raise OSError(24, "Too many open files")


@pytest.mark.parametrize(
    ("name", "good", "bad", "line"),
    [
        (".lm-tools-bridge/workspace.toml", STDIO.format(name="a"), "\n\n[[mcp.stdio_servers]\n", 3),
        (".mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', '{\n"mcpServers": {"a" {}}}', 2),
        (".vscode/mcp.json", '{"servers": {"a": {"command": "x"}}}', '{ // a\n/* b\n */ "servers": 1 2}', 3),
        (".cursor/mcp.json", '{"mcpServers": {"a": {"command": "x"}}}', '{"mcpServers": {\n', 1),
    ],
)
def test_an_invalid_file_keeps_its_last_valid_content(
    home: ConfigHome, name: str, good: str, bad: str, line: int
) -> None:
    home.put(name, good)
    home.current()
    home.put(name, bad)
    found = home.current()
    assert [one.namespace for one in found.stdio] == ["a"]
    (issue,) = found.issues
    assert (issue.level, issue.category, issue.code) == ("error", "config", "CONFIG_UNREADABLE")
    assert issue.message.startswith(f"{name}, line {line}, column ")
    assert home.current() is found
    home.put(name, good)
    assert home.current().issues == ()


@pytest.mark.parametrize("kind", ["folder", "pipe", "large", "latin-1", "array", "deep"])
def test_a_path_that_is_not_a_file_is_reported_and_others_are_used(home: ConfigHome, kind: str) -> None:
    home.user(STDIO.format(name="a"))
    file = home.root / ".mcp.json"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        content = {"large": b" " * (MAX_BYTES + 1), "latin-1": b'{"\xe9": 1}', "array": b"[]"}
        file.write_bytes(content.get(kind, b'{"a":' * 5_000))
    found = home.current()
    assert [one.namespace for one in found.stdio] == ["a"]
    assert [issue.code for issue in found.issues] == ["CONFIG_UNREADABLE"]


def test_empty_files_and_byte_order_marks_are_accepted(home: ConfigHome) -> None:
    (home.root / ".mcp.json").write_bytes(b"")
    home.put(".vscode/mcp.json", "\ufeff// nothing yet\n")
    home.user("\ufeff" + STDIO.format(name="a"))
    assert [one.namespace for one in home.current().stdio] == ["a"]
    assert home.codes() == []


def test_unknown_keys_are_reported_and_ignored(home: ConfigHome) -> None:
    home.user(
        'colour = "red"\n[tools]\nsmell = 1\n[mcp]\nother = 1\n' + STDIO.format(name="a") + "taste = 1\n"
    )
    found = home.current()
    assert [one.namespace for one in found.stdio] == ["a"]
    assert {issue.code for issue in found.issues} == {"CONFIG_UNKNOWN_KEY"}
    text = " ".join(issue.message for issue in found.issues)
    assert all(key in text for key in ("colour", "tools.smell", "mcp.other", "taste"))


def register_worktree(repository: Path, tree: Path) -> None:
    """Write the files by which git registers a worktree."""
    entry = repository / "worktrees" / tree.name
    entry.mkdir(parents=True)
    (tree / ".git").write_text(f"gitdir: {entry}\n")
    (entry / "gitdir").write_text(f"{tree}/.git\n")
    (entry / "commondir").write_text("../..\n")


@pytest.mark.parametrize("is_proven", [True, False])
def test_what_the_user_chose_for_a_project_counts_in_its_worktrees(
    home: ConfigHome, tmp_path: Path, is_proven: bool
) -> None:
    main, tree = tmp_path / "main", home.root
    register_worktree(main / ".git", tree)
    if not is_proven:
        (main / ".git/worktrees" / tree.name / "gitdir").write_text(f"{tmp_path}/other/.git\n")
    home.user(
        f'[[mcp.stdio_servers]]\nnamespace = "a"\ncommand = ["a"]\nprojects = ["{main}"]\n'
        f'[visibility."{main}".tools]\nx = "ondemand"\ny = "always"\n'
        f'[visibility."{tree}".tools]\nx = "native"\n'
    )
    configuration = home.current()
    assert [server.namespace for server in configuration.stdio] == (["a"] if is_proven else [])
    assert configuration.visibility.tools == (
        {"x": "native", "y": "always"} if is_proven else {"x": "native"}
    )


def test_only_the_user_decides_whether_worktrees_inherit_trust(home: ConfigHome) -> None:
    home.user("[trust]\ninherit = false\n")
    home.workspace("[trust]\ninherit = true\n")
    configuration = home.current()
    assert not configuration.inherits_trust
    assert [issue.code for issue in configuration.issues] == ["CONFIG_KEY_REFUSED"]
    home.user('[trust]\ninherit = "yes"\n')
    assert not home.current().inherits_trust, "what cannot be read allows nothing"


def test_a_workspace_cannot_grant_itself_rights(home: ConfigHome) -> None:
    home.workspace(
        'trusted = true\ninternal_prefix = "x_"\nautoApprove = ["*"]\n'
        '[scripts]\nexecute_code = true\ntools_path = ["/usr/share", "sub", "../other"]\n'
        '[approvals]\na = "allow"\nb = "deny"\nc = "ask"\n'
    )
    home.user('[approvals]\nb = "allow"\nc = "deny"\n')
    found = home.current()
    assert found.scripts == ScriptSettings(workspace_tools_path=(home.root / "sub",))
    assert found.internal_prefix == "openllm_"
    assert found.approvals == {"b": "deny", "c": "deny"}
    assert {issue.code for issue in found.issues} == {"CONFIG_KEY_REFUSED"}
    text = " ".join(issue.message for issue in found.issues)
    assert all(
        key in text for key in ("trusted", "internal_prefix", "autoApprove", "execute_code", "tools_path")
    )


def test_a_link_out_of_the_workspace_is_not_a_script_folder(home: ConfigHome) -> None:
    (home.root / "linked").symlink_to(home.user_dir)
    home.workspace('[scripts]\ntools_path = ["linked"]\nlibraries_path = ["linked/x"]\n')
    assert home.current().scripts == ScriptSettings()


def test_the_user_sets_scripts_and_more(home: ConfigHome) -> None:
    home.user(
        'internal_prefix = "mine_"\ncall_timeout_s = 30\ndebug = "simple"\n'
        '[scripts]\nexecute_code = true\ntools_path = ["~/tools", "more"]\nlibraries_path = ["/opt/lib"]\n'
    )
    home.workspace("call_timeout_s = 60\n")
    found = home.current()
    assert found.scripts == ScriptSettings(
        (Path("/home/ada/tools"), home.user_dir / "more"), (Path("/opt/lib"),), execute_code=True
    )
    assert (found.internal_prefix, found.call_timeout_s, found.debug) == ("mine_", 60.0, "simple")
    assert found.issues == ()


@pytest.mark.parametrize(
    "text",
    [
        "call_timeout_s = 0", "call_timeout_s = 601", "call_timeout_s = nan", "call_timeout_s = true",
        'internal_prefix = ""', "internal_prefix = 1", 'debug = "loud"', "scripts = []",
        '[tools]\nexposedDelta = "x"', "[mcp]\nstdio_servers = 1",
        "[scripts]\nexecute_code = 1", '[scripts]\ntools_path = "x"', '[scripts]\ntools_path = ["${NOPE}"]',
    ],
)  # fmt: skip
def test_a_bad_value_is_ignored_with_a_warning(home: ConfigHome, text: str) -> None:
    home.user(text)
    found = home.current()
    assert [(issue.level, issue.code) for issue in found.issues] == [("warning", "CONFIG_INVALID_VALUE")]
    assert found.scripts == ScriptSettings()
    assert found.deltas == PolicyDeltas()
    assert (found.call_timeout_s, found.internal_prefix, found.debug) == (120.0, "openllm_", "off")


def test_an_invalid_approval_permits_nothing(home: ConfigHome) -> None:
    home.user('[approvals]\nrm = "denied"\nls = 1\n')
    found = home.current()
    assert found.approvals == {"rm": "deny", "ls": "deny"}
    assert [issue.level for issue in found.issues] == ["error", "error"]
    assert "workspace.toml, line 2" in found.issues[0].message
    assert "did you mean deny?; until it is corrected, calls are denied" in found.issues[0].message


@pytest.mark.parametrize("key", ["disabledDelta", "unexposedDelta"])
@pytest.mark.parametrize("value", ['"greet, up__run"', '["greet", "up__run"]'])
@pytest.mark.parametrize("is_misspelt", [False, True])
def test_an_invalid_rule_hides_the_tools_that_it_names(
    home: ConfigHome, key: str, value: str, is_misspelt: bool
) -> None:
    """With the line, and the key that was meant."""
    home.user(f"[tools]\n\n{key.replace('Delta', '_delta') if is_misspelt else key} = {value}\n")
    found = home.current()
    assert getattr(found.deltas, key.removesuffix("Delta")) == ("greet", "up__run")
    assert found.deltas.closed is False
    if value.startswith("[") and not is_misspelt:
        assert found.issues == ()
        return
    (issue,) = found.issues
    assert (issue.level, issue.code) == ("error", "CONFIG_INVALID_VALUE")
    assert "workspace.toml, line 3" in issue.message
    assert "until it is corrected, it hides greet, up__run" in issue.message
    assert (f"did you mean tools.{key}?" in issue.message) is is_misspelt


@pytest.mark.parametrize(
    "text",
    ["tools = 1", 'approvals = "deny"', "[tools]\ndisabledDelta = [1]", "[tools]\nunexposedDelta = true",
     "[tools]\ndisabledDelta = {greet = true}"],
)  # fmt: skip
@pytest.mark.parametrize("scope", ["user", "workspace"])
def test_a_rule_whose_names_cannot_be_read_hides_every_tool(home: ConfigHome, text: str, scope: str) -> None:
    if scope == "user":
        home.user(text)
    else:
        home.workspace(f"useWorkspaceSettings = true\n{text}")
    found = home.current()
    assert found.deltas.closed is True
    (issue,) = found.issues
    assert (issue.level, issue.code) == ("error", "CONFIG_INVALID_VALUE")
    assert "no tool can be called" in issue.message
    assert policy.hidden({"greet": "enabled"}, found.deltas).keys() == {"greet"}
    home.user("")
    home.workspace("")
    assert home.current().deltas.closed is False


def test_each_unknown_key_is_told_with_its_line_and_the_nearest_one(home: ConfigHome) -> None:
    home.user("\ncall_timeuot_s = 3\n[tools]\nexposedDetla = []\n[scripts]\ntool_path = []\n[bultin]\n")
    found = {issue.message.partition("workspace.toml, ")[2] for issue in home.current().issues}
    assert found == {
        "line 2: unknown: call_timeuot_s; it is ignored; did you mean call_timeout_s?",
        "line 4: unknown: tools.exposedDetla; it is ignored; did you mean tools.exposedDelta?",
        "line 6: unknown: scripts.tool_path; it is ignored; did you mean scripts.tools_path?",
        "line 7: unknown: bultin; it is ignored; did you mean builtin?",
    }


def test_keys_and_values_of_an_entry_are_told_with_their_line(home: ConfigHome) -> None:
    home.user(
        STDIO.format(name="a") + "timeuot_s = 3\n"
        '[[mcp.stdio_servers]]\nnamespace = "b"\ncomand = ["x"]\n'
        '[[mcp.stdio_servers]]\ncommand = ["x"]\nnamespace = "c"\nsharing = "calls"\n'
    )
    home.put(".mcp.json", '{"mcpServers": {\n "d": {"command": "x"},\n "e": {\n  "type": "sdtio"}}}')
    home.put(".vscode/mcp.json", '{"server": {}}')
    first = len(STDIO.format(name="a").splitlines()) + 1
    found = {issue.message.partition(", ")[2] for issue in home.current().issues}
    assert {
        f'entry "a", line {first}: unknown: timeuot_s; it is ignored; did you mean timeout_s?',
        f'entry "b", line {first + 3}: "command" is missing, but there is "comand"; the entry is skipped',
        f'entry "c", line {first + 7}: "sharing" must be one of workspace, session, call; did you mean call?; '
        "the entry is skipped",
        'entry "e", line 4: "type" must be one of stdio, http, sse; did you mean stdio?; the entry is skipped',
        "line 1: unknown: server; it is ignored; did you mean servers?",
    } <= found


def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    """At most 0.3 ms on an idle machine; here with slack."""
    import time

    home = ConfigHome(tmp_path, clock=later)
    home.user(STDIO.format(name="a"))
    home.workspace(STDIO.format(name="b"))
    home.put(".mcp.json", {"mcpServers": {f"s{i}": {"command": "x"} for i in range(50)}})
    home.current()
    best = min(_timed(home, time.perf_counter) for _ in range(50))
    assert best < 0.001


def _timed(home: ConfigHome, clock: object) -> float:
    started = clock()
    home.current()
    return float(clock() - started)


@pytest.mark.parametrize(
    ("user", "workspace", "there", "codes"),
    [
        ("", "", True, []),
        ("enabled = false", "", False, []),
        ("", "enabled = false", False, []),
        ("enabled = false", "enabled = true", False, []),
        ("", "enabled = 0", False, ["CONFIG_INVALID_VALUE"]),
        ("", "enable = false", True, ["CONFIG_UNKNOWN_KEY"]),
    ],
)
def test_either_file_can_disable_the_built_in_tools(
    home: ConfigHome, user: str, workspace: str, there: bool, codes: list[str]
) -> None:
    home.user(f"[builtin]\n{user}")
    home.workspace(f"[builtin]\n{workspace}")
    assert home.current().builtin is there
    assert home.codes() == codes


@pytest.mark.parametrize(
    ("user", "workspace", "there"),
    [("", "", True), ("enabled = false", "", False), ("", "enabled = false", False), ("", "x = 1", True)],
)
def test_either_file_can_switch_off_the_apps_of_all_servers(
    home: ConfigHome, user: str, workspace: str, there: bool
) -> None:
    server = '[[mcp.stdio_servers]]\nnamespace = "clock"\ncommand = ["clock"]\n'
    home.user(f"[apps]\n{user}\n{server}")
    home.workspace(f"[apps]\n{workspace}")
    assert [entry.apps for entry in home.current().stdio] == [there]
    assert home.codes() == (["CONFIG_UNKNOWN_KEY"] if "x" in workspace else [])


def test_an_entry_can_switch_off_the_apps_of_its_server(home: ConfigHome) -> None:
    home.user(
        '[[mcp.stdio_servers]]\nnamespace = "clock"\ncommand = ["clock"]\napps = false\n'
        '[[mcp.remote_servers]]\nnamespace = "far"\nurl = "https://example.org/mcp"\n'
    )
    assert [entry.apps for entry in home.current().servers] == [False, True]
    assert home.codes() == []
