"""Tests of doctor: each client is played as its files say, and each fault in them is told."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.client_setup.clients import CLIENTS, client_named
from lm_tools_bridge.client_setup.played_client import INTRODUCTIONS
from manager.cli.verbs import cli
from manager.configuration.paths import Paths
from manager.routing.client_profiles import OTHER, PROFILES, profile_of
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.servers.mcp_sources.stdio_servers import program
from workspace_server.command.trust_view import all_items
from workspace_server.trust.store import TrustStore

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="clients have other folders there"),
    pytest.mark.processes,
]
SENDING = ("claude-code", "codex", "gemini-cli", "opencode")

Diagnose = Callable[[str], list[dict[str, Any]]]

WITH_FILE_TOOLS = {profile.title for profile in PROFILES if profile.has_file_tools}
"""Clients whose lists leave our file tools out."""


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("shared"), env={"LMTB_FORK_SERVERS": "true"}) as running:
        yield running


@pytest.fixture
def home(manager: ManagerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user of that manager, whose current folder is a project."""
    for name, value in manager.environ.items():
        monkeypatch.setenv(name, value)
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
    project = tmp_path / "näh er"
    (project / ".git").mkdir(parents=True)
    monkeypatch.chdir(project)
    monkeypatch.setenv("PWD", str(project))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".continue").mkdir()
    (tmp_path / ".continue/config.yaml").write_text("name: me\n")
    (tmp_path / ".config/goose").mkdir(parents=True)
    (tmp_path / ".config/goose/config.yaml").write_text("GOOSE_MODE: auto\n")
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/trustedFolders.json").write_text(json.dumps({str(tmp_path): "TRUST_FOLDER"}))
    return tmp_path


@pytest.fixture
def project(home: Path) -> Path:
    return home / "näh er"


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, list(words))


@pytest.fixture
def add(home: Path) -> Callable[[str], Path]:
    """Adds us to a client's file, as a user does; the file."""

    def call(name: str) -> Path:
        added = json.loads(run("client", "add", name, "--no-servers", "--yes", "--json").stdout)
        return Path(added["clients"][0]["file"])

    return call


@pytest.fixture
def found_by_client(home: Path) -> Callable[[], dict[str, list[dict[str, Any]]]]:
    """What doctor finds, by what it is about."""

    def call() -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {}
        for one in json.loads(run("doctor", "--json").stdout)["checks"]:
            found.setdefault(one["check"], []).append(one)
        return found

    return call


@pytest.fixture
def diagnose(found_by_client: Any) -> Diagnose:
    """What doctor finds about a client, by its id."""

    def call(name: str) -> list[dict[str, Any]]:
        client = client_named(name)
        assert client is not None
        return list(found_by_client()[client.title])

    return call


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_every_file_that_was_just_written_is_played_well(
    add: Any, found_by_client: Any, project: Path
) -> None:
    for client in CLIENTS:
        add(client.id)
    found = found_by_client()
    for client in CLIENTS:
        ((level, message, hint),) = [
            (one["level"], one["message"], one["hint"]) for one in found[client.title]
        ]
        assert (level, hint) == ("ok", None), message
        if client.sends_folder or client.id == "vscode":
            by = "roots" if client.id == "vscode" else "query"
            assert ("6 built in" in message) is (client.title not in WITH_FILE_TOOLS)
            assert message.endswith(f"{project}, found by {by}")
        else:
            assert message.startswith("2 tools (2 of the manager)")


def test_a_client_that_was_added_is_played_at_once(project: Path) -> None:
    said = run("client", "add", "claude-code", "--yes").stdout
    (line,) = [one for one in said.splitlines() if one.startswith("OK ")]
    assert "Claude Code: " in line and line.endswith(f"{project}, found by query")
    again, *_ = json.loads(run("client", "add", "claude-code", "--yes", "--json").stdout)["clients"]
    assert (again["result"], [one["level"] for one in again["checks"]]) == ("unchanged", ["ok"])


def test_a_client_that_would_see_nothing_is_told_so_when_it_is_added(home: Path) -> None:
    (home / ".gemini/trustedFolders.json").unlink()
    said = run("client", "add", "gemini-cli", "--yes").stdout
    assert "WARN  Gemini CLI: it does not trust" in said
    assert "-> start it there, and choose to trust the folder" in said


def test_played_clients_are_not_among_the_clients_and_leave_no_session(
    add: Any, found_by_client: Any
) -> None:
    for name in SENDING:
        add(name)
    assert len(found_by_client()["Codex"]) == 1
    assert json.loads(run("clients", "--json").stdout)["clients"] == []
    assert json.loads(run("sessions", "--json").stdout)["sessions"] == []


@pytest.mark.parametrize("name", ["claude-code", "opencode", "cursor"])
def test_a_wrong_port_is_told_with_the_command_and_never_contacted(
    add: Any, diagnose: Diagnose, manager: ManagerProcess, name: str
) -> None:
    file = add(name)
    port = manager.address.removesuffix("/mcp").rpartition(":")[2]
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        other = stranger.getsockname()[1]
        replace(file, f":{port}/", f":{other}/")
        (found,) = diagnose(name)
        stranger.settimeout(0)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert (found["level"], found["hint"]) == ("fail", f"lmtb client update {name}")
    assert f":{other}/mcp" in found["message"] and f"the manager's port is {port}" in found["message"]
    assert str(file) in found["message"] and ", line " in found["message"]


def test_an_unset_variable_is_named(
    add: Any, diagnose: Diagnose, monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    for name, written in (("claude-code", "${PWD}"), ("gemini-cli", "$PWD")):
        add(name)
        monkeypatch.delenv("PWD", raising=False)
        first = diagnose(name)[0]
        assert first["level"] == "warn"
        assert f"uses {written}, which has no value here" in first["message"]
        assert "lmtb client" not in first["hint"], "no command changes it"
        monkeypatch.setenv("PWD", str(project))


def test_an_older_entry_of_codex_is_told_with_the_command_that_updates_it(
    add: Any, diagnose: Diagnose, manager: ManagerProcess
) -> None:
    file = add("codex")
    older = f'url = "{manager.address}"\nenv_http_headers = {{ "X-Workspace-Cwd" = "PWD" }}\n'
    file.write_text(f"[mcp_servers.{ENTRY_NAME}]\n{older}")
    outdated, seen = diagnose("codex")
    assert outdated["hint"] == "lmtb client update codex"
    assert (
        "command, args" in outdated["message"] and "in place of url, env_http_headers" in outdated["message"]
    )
    assert (
        "folder of the shell" in outdated["message"] and "required = true is missing" in outdated["message"]
    )
    assert seen["level"] == "ok"
    run("client", "update", "codex", "--yes")
    assert [one["level"] for one in diagnose("codex")] == ["ok"]


def test_an_older_entry_of_copilot_cli_sees_the_tools_after_the_update(
    add: Any, diagnose: Diagnose, project: Path, manager: ManagerProcess
) -> None:
    older_entry(add("copilot-cli"), int(manager.address.removesuffix("/mcp").rpartition(":")[2]))
    outdated, unknown, seen = diagnose("copilot-cli")
    assert {outdated["hint"], unknown["hint"].partition(";")[0]} == {"lmtb client update copilot-cli"}
    assert seen["message"].startswith("2 tools (2 of the manager)")
    run("client", "update", "copilot-cli", "--yes")
    (seen,) = diagnose("copilot-cli")
    assert seen["message"].endswith(f"{project}, found by query"), "it has file tools of its own"


def test_an_entry_of_the_user_gets_a_line_to_write_and_no_command(
    add: Any, diagnose: Diagnose, manager: ManagerProcess
) -> None:
    file = add("codex")
    file.write_text(
        f'[mcp_servers.{ENTRY_NAME}]\nurl = "{manager.address}"\nhttp_headers = {{ "X-A" = "b" }}\n'
    )
    required, header, unknown, seen = diagnose("codex")
    assert required["hint"] == f"write in {file}, line 1: required = true"
    assert "X-Workspace-Cwd is missing" in header["message"] and header["hint"].startswith("write in ")
    assert "is not found" in unknown["message"] and "lmtb client" not in unknown["hint"]
    assert seen["level"] == "ok" and "2 of the manager" in seen["message"]


@pytest.mark.parametrize("name", ["a&b", "a#b", "a%41"])
def test_a_folder_that_an_address_cannot_name_gets_its_own_address_and_no_command(
    add: Any, diagnose: Diagnose, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    folder = home / name
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PWD", str(folder))
    add("claude-code")
    unknown, seen = diagnose("claude-code")
    assert f"{folder} is not found" in unknown["message"] and seen["level"] == "ok"
    assert unknown["hint"].startswith("give the project its own address, /w/ID/mcp")
    assert "lmtb client" not in unknown["hint"]


@pytest.mark.parametrize(
    "rules", [None, "{", {"": "TRUST_FOLDER", "näh er": "DO_NOT_TRUST"}, {"other": "TRUST_FOLDER"}]
)
def test_gemini_cli_uses_no_server_in_a_folder_that_it_does_not_trust(
    add: Any, diagnose: Diagnose, home: Path, rules: Any
) -> None:
    add("gemini-cli")
    file = home / ".gemini/trustedFolders.json"
    file.unlink()
    if rules is not None:
        file.write_text(rules if rules == "{" else json.dumps({str(home / k): v for k, v in rules.items()}))
    untrusted, seen = diagnose("gemini-cli")
    assert "does not trust" in untrusted["message"] and seen["level"] == "ok"
    file.write_text(json.dumps({str(home / "näh er/src"): "TRUST_PARENT"}))
    assert len(diagnose("gemini-cli")) == 1


def test_a_broken_file_is_told_with_its_line(add: Any, diagnose: Diagnose) -> None:
    for name in ("claude-code", "codex"):
        file = add(name)
        file.write_text("\n\n[broken\n")
        (found,) = diagnose(name)
        assert found["level"] == "fail"
        assert f"{file}, line 3" in found["message"]
        assert found["hint"]


def test_a_file_of_the_project_takes_precedence(
    add: Any, diagnose: Diagnose, project: Path, manager: ManagerProcess
) -> None:
    add("claude-code")
    entry = {"type": "http", "url": "http://127.0.0.1:9/mcp"}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {ENTRY_NAME: entry}}, indent=1))
    (found,) = diagnose("claude-code")
    assert found["level"] == "fail"
    assert f"{project}/.mcp.json, line 3" in found["message"]
    assert found["hint"] == f"write in {project}/.mcp.json, line 3: {manager.address}"


def test_two_entries_for_one_manager_are_told(add: Any, diagnose: Diagnose, project: Path) -> None:
    file = add("claude-code")
    content = json.loads(file.read_text())
    content["mcpServers"]["again"] = content["mcpServers"][ENTRY_NAME]
    file.write_text(json.dumps(content))
    twice, seen = diagnose("claude-code")
    assert "every tool twice" in twice["message"]
    assert 'remove the entry "again"' in twice["hint"]
    assert seen["level"] == "ok"


def trusted(project: Path, name: str, command: str, *arguments: str) -> None:
    """Give the project a server that its user trusts."""
    entry = {"command": command, "args": arguments}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {name: entry}}))
    paths = Paths.of_user(os.environ)
    TrustStore(paths.state_dir / "trust").trust(project, all_items(project, paths.config_dir, os.environ))


def test_a_server_that_the_client_starts_itself_is_told(add: Any, diagnose: Diagnose, project: Path) -> None:
    command, *arguments = program("serve(echo)")
    trusted(project, "theirs", command, *arguments)
    with add("codex").open("a") as file:
        file.write(f"\n[mcp_servers.theirs]\ncommand = {json.dumps(command)}\n")
    run("tools", "--json")  # the server is running, and its tools are known
    twice, seen = diagnose("codex")
    assert "it sees 1 tool of theirs twice" in twice["message"] and "config.toml" in twice["message"]
    assert twice["hint"] == "lmtb adopt --user theirs"
    assert "1 of stdio:theirs" in seen["message"]


def test_a_server_that_its_user_did_not_allow_in_claude_code_is_there_once(
    add: Any, diagnose: Diagnose, project: Path
) -> None:
    """We offer it; once it is allowed, Claude Code starts it, and we do not."""
    command, *arguments = program("serve(echo)")
    trusted(project, "theirs", command, *arguments)
    add("claude-code")
    run("tools", "--json")  # the server is running, and its tools are known
    (seen,) = diagnose("claude-code")
    assert seen["level"] == "ok" and "1 of stdio:theirs" in seen["message"]
    (project / ".claude").mkdir(exist_ok=True)
    (project / ".claude/settings.local.json").write_text('{"enabledMcpjsonServers": ["theirs"]}')
    (seen,) = diagnose("claude-code")
    assert seen["level"] == "ok" and "stdio:theirs" not in seen["message"]


def test_a_server_that_starts_late_is_told(
    add: Any, found_by_client: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # longer than Claude Code and Codex wait, also on a busy machine, and far shorter than Gemini CLI does
    monkeypatch.setattr("lm_tools_bridge.client_setup.client_checks.PATIENCE_S", 4)
    trusted(project, "slow", "sleep", "60")
    for name in ("codex", "claude-code", "gemini-cli"):
        add(name)
    found = found_by_client()
    for title, said in (("Codex", "never lists again"), ("Claude Code", "follow as a list change")):
        messages = [one["message"] for one in found[title]]
        assert any("the tools of slow come late" in one and said in one for one in messages), messages
        assert found[title][-1]["level"] == "ok" and "to find others" in messages[-1]
    (late,) = found["Gemini CLI"]
    assert "within 4 s; still starting: slow; it waits 50 s" in late["message"]


def test_an_address_of_a_project_reaches_no_other_page_of_the_manager(
    add: Any, diagnose: Diagnose, project: Path, manager: ManagerProcess
) -> None:
    base = manager.address.removesuffix("/mcp")
    for url in (f"{base}/allocate", manager.address.replace("http:", "https:")):
        entry = {"command": "lmtb", "args": ["connect"], "url": url}
        (project / ".mcp.json").write_text(json.dumps({"mcpServers": {ENTRY_NAME: entry}}))
        (found,) = diagnose("claude-code")
        assert found["level"] == "fail" and f"it connects to {url}" in found["message"]


def test_nothing_of_an_untrusted_project_runs(add: Any, diagnose: Diagnose, project: Path) -> None:
    servers = {"theirs": {"command": "touch", "args": [str(project / "canary")]}}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    add("claude-code")
    assert diagnose("claude-code")[-1]["level"] == "ok"
    assert not (project / "canary").exists()


@pytest.mark.always
def test_every_client_introduces_itself_with_a_name_that_has_its_profile() -> None:
    assert set(INTRODUCTIONS) == {one.id for one in CLIENTS}
    for one in CLIENTS:
        profile = profile_of(INTRODUCTIONS[one.id].name)
        assert profile.title == one.title or profile is OTHER
        if one.id not in {"qwen-code", "cline", "continue"}:  # as MCP clients they have other versions
            assert profile.measured == "" or INTRODUCTIONS[one.id].version in profile.measured


def wrong_port(file: Path, port: int) -> None:
    replace(file, f":{port}/", ":9/")


def no_entry_of_ours(file: Path, port: int) -> None:
    replace(file, f"http://127.0.0.1:{port}/mcp", "https://example.com/sse")


def older_entry(file: Path, port: int) -> None:
    entry = {"type": "http", "url": f"http://127.0.0.1:{port}/mcp", "tools": ["*"]}
    file.write_text(json.dumps({"mcpServers": {ENTRY_NAME: entry}}))


def started_twice(file: Path, port: int) -> None:
    content = json.loads(file.read_text())
    content["mcpServers"]["theirs"] = {"command": sys.executable, "args": ["-c", ""]}
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "spoil"),
    [("claude-code", wrong_port), ("cursor", wrong_port), ("copilot-cli", older_entry),
     ("claude-code", no_entry_of_ours), ("cursor", no_entry_of_ours), ("claude-code", started_twice)],
)  # fmt: skip
def test_a_command_that_is_advised_solves_the_problem(
    add: Any,
    diagnose: Diagnose,
    project: Path,
    manager: ManagerProcess,
    name: str,
    spoil: Callable[[Path, int], None],
) -> None:
    command, *arguments = program("serve(echo)")
    (project / ".cursor").mkdir()
    content = {"mcpServers": {"theirs": {"command": command, "args": arguments}}}
    (project / ".cursor" / "mcp.json").write_text(json.dumps(content))
    run("trust", "--yes")
    run("tools", "--json")
    spoil(add(name), int(manager.address.removesuffix("/mcp").rpartition(":")[2]))
    before = {one["message"]: one["hint"] for one in diagnose(name) if one["level"] != "ok"}
    commands = {hint.partition(";")[0] for hint in before.values()}
    assert any(hint.startswith("lmtb ") for hint in commands), before
    for hint in commands:
        if hint.startswith("lmtb "):
            assert run(*shlex.split(hint)[1:], "--yes").exit_code == 0, hint
    after = {one["message"] for one in diagnose(name) if one["level"] != "ok"}
    assert after.isdisjoint(before)


@pytest.mark.parametrize("adversity", ["no PWD", "a folder with & # %", "outside of a project"])
def test_for_an_entry_as_it_is_written_no_command_is_advised_that_writes_it_again(
    add: Any, found_by_client: Any, project: Path, monkeypatch: pytest.MonkeyPatch, adversity: str
) -> None:
    for client in CLIENTS:
        add(client.id)
    folder = {
        "a folder with & # %": project.parent / "a&b#c%d",
        "outside of a project": project.parent / "out",
    }
    if place := folder.get(adversity):
        (place / ".git" if "&" in str(place) else place).mkdir(parents=True)
        monkeypatch.chdir(place)
        monkeypatch.setenv("PWD", str(place))
    else:
        monkeypatch.delenv("PWD")
    found = found_by_client()
    hints = [one["hint"] or "" for client in CLIENTS for one in found.get(client.title, [])]
    assert len(hints) >= len(CLIENTS)
    assert [hint for hint in hints if "lmtb client add" in hint or "lmtb client update" in hint] == []


def test_what_cannot_be_adopted_is_to_be_removed(add: Any, diagnose: Diagnose, home: Path) -> None:
    """The user's workspace.toml has a server of this name already."""
    command = program("serve(echo)")
    own = Paths.of_user(os.environ).config_dir / "workspace.toml"
    before = own.read_bytes() if own.exists() else None
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f'[[mcp.stdio_servers]]\nnamespace = "theirs"\ncommand = {json.dumps(command)}\n')
    try:
        run("tools", "--json")
        with add("codex").open("a") as file:
            file.write(f"\n[mcp_servers.theirs]\ncommand = {json.dumps(command[0])}\n")
        twice, *_ = diagnose("codex")
        assert "twice" in twice["message"]
        assert twice["hint"].startswith('remove the entry "theirs" from ')
    finally:  # the manager's tests share this folder
        own.unlink() if before is None else own.write_bytes(before)


def test_an_entry_of_our_name_in_a_project_is_not_replaced_by_a_command(
    add: Any, diagnose: Diagnose, project: Path
) -> None:
    add("claude-code")
    entry = {"type": "http", "url": "https://example.com/sse"}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {ENTRY_NAME: entry}}))
    other, *_ = diagnose("claude-code")
    assert "does not lead to LM Tools Bridge" in other["message"]
    assert "client add" not in other["hint"] and other["hint"].startswith("remove it there")
