"""Tests of the verbs against a real manager and real workspace servers."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from manager import exit_codes
from manager.configuration.paths import Paths
from support.processes.managers.manager_process import (
    ManagerProcess,
    environment,
    left_behind,
    lmtb,
    running_manager,
)
from support.processes.timeouts import within
from support.projects.command_home import Terminal
from support.servers.mcp_sources.stdio_servers import program

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs unix sockets and signals"),
    pytest.mark.processes,
]


def make_workspace(folder: Path) -> Path:
    """A folder that is recognised as a workspace."""
    (folder / ".git").mkdir(parents=True)
    (folder / "apple.txt").write_text("an apple\n")
    return folder


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    """A manager that no test stops, and that is asked for one workspace only: `used`."""
    with running_manager(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture(scope="module")
def used(shared: ManagerProcess) -> Path:
    """A workspace whose server runs."""
    folder = make_workspace(shared.log.parent / "projects" / "näh er")
    assert shared.lmtb("call", "datetime", cwd=folder).returncode == exit_codes.OK
    return folder


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[ManagerProcess]:
    """A manager of the test's own."""
    with running_manager(tmp_path) as running:
        yield running


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A workspace that nobody has asked for."""
    return make_workspace(tmp_path / "projects" / "näh er")


@pytest.mark.always
def test_tools_and_call_use_the_workspace_of_the_current_folder(shared: ManagerProcess, used: Path) -> None:
    listed = shared.lmtb("tools", "--json", cwd=used)
    answer = json.loads(listed.stdout)
    assert answer["ok"] is True
    assert {"lm_readFile": "callable"}.items() <= {
        tool["name"]: tool["state"] for tool in answer["tools"]
    }.items()
    read = shared.lmtb("call", "lm_readFile", '{"filePath": "apple.txt"}', cwd=used)
    assert read.returncode == exit_codes.OK, read.stderr
    assert "an apple" in read.stdout


def test_a_shell_completes_names_of_tools_and_sources(shared: ManagerProcess, used: Path) -> None:
    for words, found in {
        "lmtb call lm_rea": "plain,lm_readFile",
        "lmtb log --server buil": "plain,builtin",
    }.items():
        environ = {
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
            "_LMTB_COMPLETE": "bash_complete",
        }
        ended = lmtb({**shared.environ, **environ}, cwd=used)
        assert (ended.stdout.split(), ended.stderr) == ([found], "")


def test_arguments_can_come_from_standard_input(shared: ManagerProcess, used: Path) -> None:
    ended = shared.lmtb("call", "calculator", "-", "--cwd", str(used), input='{"expression": "6*7"}')
    assert (ended.returncode, ended.stdout.strip()) == (exit_codes.OK, "42")


def test_error_of_a_tool_goes_to_standard_error_with_exit_code_1(shared: ManagerProcess, used: Path) -> None:
    ended = shared.lmtb("call", "calculator", '{"expression": "1/0"}', "--cwd", str(used))
    assert ended.returncode == exit_codes.FAILED
    assert ended.stdout == ""
    assert "Division by zero" in ended.stderr


def test_error_of_the_protocol_tells_the_next_step_once(shared: ManagerProcess, used: Path) -> None:
    ended = shared.lmtb("call", "no_such_tool", "--cwd", str(used))
    assert ended.returncode == exit_codes.FAILED
    assert ended.stderr.startswith("Tool not found or disabled: no_such_tool\nNext step: ")
    assert ended.stderr.count("Next step") == 1


@pytest.mark.parametrize("arguments", ["[]", "{", "1"])
def test_arguments_that_are_no_object_are_wrong_usage(tmp_path: Path, arguments: str) -> None:
    ended = lmtb(environment(tmp_path), "call", "calculator", arguments)
    assert ended.returncode == exit_codes.USAGE
    assert "JSON" in ended.stderr


def test_folder_without_a_workspace_is_refused_with_the_next_step(shared: ManagerProcess) -> None:
    ended = shared.lmtb("tools", cwd="/")
    assert (ended.returncode, ended.stdout) == (exit_codes.FAILED, "")
    assert "is in no workspace" in ended.stderr and "git init" in ended.stderr


def test_sources_that_wait_for_trust_are_listed_and_tried_again(tmp_path: Path, project: Path) -> None:
    """Status and doctor know what the workspace's server told with its last health answer."""
    (project / ".mcp.json").write_text('{"mcpServers": {"gone": {"command": "no-such-program"}}}')
    with running_manager(tmp_path, "--health-interval-s", "0.1") as manager:
        _status_names_what_waits_where_no_server_ran(manager, project)
        waiting = manager.lmtb("servers", cwd=project)
        assert waiting.returncode == exit_codes.OK
        assert waiting.stdout.splitlines()[1].split()[:3] == ["stdio:gone", "needs", "trust"]
        assert f"lmtb trust {shlex.quote(str(project))}" in waiting.stderr
        _doctor_and_status_name_what_waits(manager, project)
        _trusted_source_is_tried_again(manager, project)


def _status_names_what_waits_where_no_server_ran(manager: ManagerProcess, project: Path) -> None:
    text = f"{project}: waiting for your trust: gone; review with: lmtb trust {shlex.quote(str(project))}"
    assert f"problem    {text}\n" in manager.lmtb("status", cwd=project).stdout
    answer = json.loads(manager.lmtb("status", "--json", cwd=project).stdout)
    assert answer["project"] == {"root": str(project), "pendingTrust": ["gone"]}
    assert answer["instanceDetails"] == []


def _doctor_and_status_name_what_waits(manager: ManagerProcess, project: Path) -> None:
    deadline = time.monotonic() + within(5)
    while not manager.status()["instanceDetails"][0]["issues"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "1 item waits for your trust" in manager.lmtb("status").stdout
    ended = manager.lmtb("doctor")
    assert ended.returncode == exit_codes.OK, "nothing failed, somebody has to decide"
    assert f"-> review with: lmtb trust {project}" in ended.stdout.replace("'", "")


def _trusted_source_is_tried_again(manager: ManagerProcess, project: Path) -> None:
    assert manager.lmtb("trust", "--yes", cwd=project).returncode == exit_codes.OK
    assert "waiting for your trust" not in manager.lmtb("status", cwd=project).stdout
    tried = manager.lmtb("servers", "restart", "gone", "--json", cwd=project)
    (source,) = json.loads(tried.stdout)["sources"]
    assert (source["id"], source["state"]) == ("stdio:gone", "failed")
    assert "no-such-program" in source["error"]


def test_trust_starts_the_servers_once_so_that_the_first_list_is_complete(
    manager: ManagerProcess, project: Path
) -> None:
    """Also after the project's server was stopped: the list is stored."""
    gate = project / "gate"
    body = f"while os.path.exists({str(gate)!r}): time.sleep(0.05)\nserve(echo)"
    command, *arguments = program(f"time.sleep(2.5)\n{body}")
    servers = {"slow": {"command": command, "args": arguments}}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    trusted = manager.lmtb("trust", "--yes", cwd=project)
    assert trusted.returncode == exit_codes.OK
    assert "Starting 1 server" in trusted.stdout
    assert re.search(r"stdio:slow: ready after [0-9.]+ s, tools: 1\n", trusted.stdout)
    gate.touch()
    (process,) = manager.status()["instanceDetails"]
    os.kill(process["pid"], signal.SIGKILL)
    assert "slow__echo" in manager.lmtb("tools", cwd=project).stdout
    gate.unlink()


def test_a_decision_about_a_tool_counts_from_the_next_request_on(
    manager: ManagerProcess, project: Path
) -> None:
    mistyped = manager.lmtb("tools", "disable", "calculater", cwd=project)
    assert (mistyped.returncode, "did you mean calculator?" in mistyped.stderr) == (exit_codes.FAILED, True)
    assert manager.lmtb("tools", "disable", "calculator", cwd=project).stderr == ""
    why = manager.lmtb("tools", "why", "calculator", cwd=project)
    assert why.stdout.startswith("calculator cannot be called: disabled")
    refused = manager.lmtb("call", "calculator", '{"expression": "1"}', cwd=project)
    assert refused.returncode == exit_codes.FAILED
    manager.lmtb("tools", "enable", "calculator", cwd=project)
    assert manager.lmtb("call", "calculator", '{"expression": "1"}', cwd=project).stdout.strip() == "1"


@pytest.mark.usefixtures("used")
def test_status_shows_what_runs(shared: ManagerProcess) -> None:
    shown = shared.lmtb("status").stdout
    assert shared.address in shown
    assert "1 known, 1 running" in shown
    assert str(shared.status()["instanceDetails"][0]["pid"]) in shown


@pytest.mark.parametrize("extra", [(), ("--keep-servers",)])
def test_stop_returns_when_all_is_gone_and_only_then(
    manager: ManagerProcess, project: Path, extra: tuple[str, ...]
) -> None:
    manager.lmtb("call", "datetime", cwd=project)
    server = psutil.Process(manager.status()["instanceDetails"][0]["pid"])
    ended = manager.lmtb("stop", *extra)
    assert ended.returncode == exit_codes.OK, ended.stderr
    assert "stopped after" in ended.stdout
    assert manager.process.poll() == exit_codes.OK
    assert server.is_running() is bool(extra)
    server_left = [server] if extra else []
    assert left_behind(manager.environ) == server_left
    for one in server_left:
        one.kill()
        one.wait(10)
    assert not Paths.of_user(manager.environ).control_socket.exists()
    again = manager.lmtb("stop")
    assert (again.returncode, again.stdout) == (exit_codes.OK, "no manager is running; nothing to stop\n")


def test_stop_says_when_the_manager_does_not_end(manager: ManagerProcess) -> None:
    ended = manager.lmtb("stop", "--timeout", "0")
    assert ended.returncode == exit_codes.FAILED
    assert f"kill -KILL {manager.process.pid}" in ended.stderr
    assert manager.process.wait(30) == exit_codes.OK


@pytest.mark.timeout(90)
def test_second_manager_says_who_serves_and_leaves_with_0(shared: ManagerProcess) -> None:
    ended = shared.lmtb("serve")
    assert ended.returncode == exit_codes.OK
    assert shared.address in ended.stderr
    assert shared.status()["pid"] == shared.process.pid


@pytest.mark.parametrize("arguments", [("--http-port", "99999"), ("--workspace-idle-s", "-1")])
def test_impossible_setting_is_named_with_its_origin(tmp_path: Path, arguments: tuple[str, str]) -> None:
    ended = lmtb(environment(tmp_path), "serve", *arguments)
    assert ended.returncode == exit_codes.HOPELESS
    assert arguments[0] in ended.stderr


def test_port_of_another_program_is_exit_code_3_and_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        environ = environment(tmp_path)
        ended = lmtb(environ, "serve", "--http-port", str(port))
        assert ended.returncode == exit_codes.HOPELESS
        assert str(os.getpid()) in ended.stderr
        report = json.loads(lmtb({**environ, "LMTB_HTTP_PORT": str(port)}, "doctor", "--json").stdout)
    failed = {one["check"]: one["message"] for one in report["checks"] if one["level"] == "fail"}
    assert report["ok"] is False
    assert str(os.getpid()) in failed["port"]


@pytest.mark.parametrize(("options", "greets"), [(("--banner",), True), ((), False)])
def test_banner_option_prints_the_banner_and_an_interrupt_exits_with_0(
    tmp_path: Path, options: tuple[str, ...], greets: bool
) -> None:
    with running_manager(tmp_path, *options) as manager:
        manager.process.send_signal(signal.SIGINT)
        assert manager.process.wait(30) == exit_codes.OK
        words = manager.log.read_text()
    commands = re.findall(r"^Connect your agents once, for all projects: (.+)$", words, re.MULTILINE)
    assert bool(commands) is greets
    for command in commands:
        # as a person would type it in the shell that the banner is in
        help_of_verb = subprocess.run(f"{command} --help", shell=True, capture_output=True, check=False)
        assert help_of_verb.returncode == exit_codes.OK


@pytest.mark.usefixtures("used")
def test_doctor_finds_a_healthy_manager_healthy(shared: ManagerProcess) -> None:
    ended = shared.lmtb("doctor")
    assert ended.returncode == exit_codes.OK, ended.stdout
    assert "FAIL" not in ended.stdout
    assert re.search(r"^OK +manager: version .* pid \d+", ended.stdout, re.MULTILINE)
    assert "OK    workspaces: 1 known, 1 running" in ended.stdout


@pytest.mark.timeout(90)
def test_demo_does_what_it_says_and_leaves_nothing(tmp_path: Path) -> None:
    environ: dict[str, Any] = {**environment(tmp_path), "TMPDIR": str(tmp_path)}
    ended = lmtb(environ, "demo", timeout=140)
    assert ended.returncode == exit_codes.OK, ended.stdout + ended.stderr
    assert "kill -9" in ended.stdout
    assert "none is left" in ended.stdout
    assert "and replies: Only the keeper's cat noticed." in ended.stdout
    assert "Every call is on record. The last one: " in ended.stdout
    assert re.search(r"the page shows all of this: http://127\.0\.0\.1:\d+/ ", ended.stdout)
    for language in ("Python", "C++"):  # whether a server is installed depends on the machine
        is_shown = f"lm_references, {language}: " in ended.stdout
        assert is_shown or f"No language server for {language} is installed here" in ended.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listing


ASKING = """
import json, sys
def say(message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
FORM = {"type": "object", "required": ["fruit"], "properties": {
    "fruit": {"type": "string", "title": "Which fruit", "enum": ["apple", "pear"], "default": "pear"}}}
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        say({"id": message["id"], "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                                             "serverInfo": {"name": "s", "version": "1"}}})
    elif method == "tools/list":
        say({"id": message["id"], "result": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        call = message["id"]
        say({"id": "q", "method": "elicitation/create",
             "params": {"message": "What do you want?", "requestedSchema": FORM}})
    elif message.get("id") == "q":
        text = json.dumps(message.get("result") or message.get("error"))
        say({"id": call, "result": {"content": [{"type": "text", "text": "answer: " + text}]}})
"""


@pytest.fixture
def asking(manager: ManagerProcess, tmp_path: Path) -> ManagerProcess:
    """A manager whose user has a server that asks for input."""
    config = Paths.of_user(manager.environ).config_dir
    config.mkdir(parents=True, exist_ok=True)
    (tmp_path / "asking.py").write_text(ASKING)
    command = json.dumps([sys.executable, "-I", "-S", str(tmp_path / "asking.py")])
    (config / "workspace.toml").write_text(f'[[mcp.stdio_servers]]\nnamespace = "x"\ncommand = {command}\n')
    return manager


@pytest.mark.parametrize(("typed", "answer"), [("apple\n", "apple"), ("\n", "pear")])
def test_a_tool_that_asks_is_answered_at_the_terminal(
    asking: ManagerProcess, project: Path, typed: str, answer: str
) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "manager", "call", "x__ask"],
        stdin=theirs, stdout=theirs, stderr=theirs, cwd=project, env=asking.environ, start_new_session=True,
    )  # fmt: skip
    terminal = Terminal(ours, theirs, process)
    try:
        shown = terminal.read_until(b"Which fruit [apple/pear] default pear: ")
        assert "x__ask asks: What do you want?" in shown
        terminal.type(typed)
        assert f'"fruit": "{answer}"' in terminal.read_until(b"}}")
        assert terminal.ends_with() == exit_codes.OK
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_a_tool_that_asks_says_what_to_do(asking: ManagerProcess, project: Path) -> None:
    ended = asking.lmtb("call", "x__ask", cwd=project)
    assert (ended.returncode, "run this command at a terminal" in ended.stderr) == (
        exit_codes.FAILED,
        True,
    ), ended


def test_with_json_a_tool_that_asks_is_not_answered_even_at_a_terminal(
    asking: ManagerProcess, project: Path
) -> None:
    ours, theirs = os.openpty()
    try:
        ended = asking.lmtb(
            "call", "x__ask", "--json", cwd=project, stdin=theirs, stderr=theirs,
            stdout=subprocess.PIPE, capture_output=False,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    told = json.loads(ended.stdout)
    assert (ended.returncode, told["ok"], told["error"]["reason"]) == (1, False, "input_required")
    assert "without --json" in told["error"]["nextStep"]
