"""The agent in scripts and pipes: exit codes, events, plain text, and every dialect of models."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lm_tools_bridge.agent.tool_service.client import ToolClient
from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import agent_desk, command
from support.processes.timeouts import within
from support.servers.models.formats.steps import call, say
from support.servers.models.model_server import Broken, Refuse
from support.servers.models.model_thread import model_in_thread

pytestmark = [pytest.mark.timeout(120), pytest.mark.processes]


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


@pytest.mark.parametrize("dialect", ["ollama", "openai", "anthropic", "gemini"])
def test_a_model_of_each_dialect_uses_the_projects_tools(
    manager: ManagerProcess, tmp_path: Path, dialect: str
) -> None:
    turns = (call("lm_readFile", {"filePath": "note.txt"}), say("It says ", "hello."))
    with agent_desk(manager, tmp_path, *turns, dialect=dialect, piece=97) as desk:
        (desk.project / "note.txt").write_text("hello from the project\n")
        ended = desk.run("-p", "what does note.txt say?")
        assert (ended.code, ended.out) == (0, "It says hello.\n"), ended.err
        assert "hello from the project" in desk.model.requests[1].results[0]
        assert "SYSTEM OUTPUT LOG" in ended.err
        assert "\x1b" not in ended.out + ended.err


def test_events_are_one_object_a_line(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (call("lm_readFile", {"filePath": "nothing.txt"}), say("There is none."))
    with agent_desk(manager, tmp_path, *turns) as desk:
        ended = desk.run("-p", "read nothing.txt", "--json")
        assert ended.code == 0, ended.err
        kinds = [event["type"] for event in ended.events]
        assert kinds[-1] == "outcome"
        assert kinds.index("call") < kinds.index("result") < kinds.index("delta")
        assert ended.events[-1]["outcome"] == "completed"
        [result] = [event for event in ended.events if event["type"] == "result"]
        assert result["isError"] is True
        assert (
            "".join(event["text"] for event in ended.events if event["type"] == "delta") == "There is none."
        )


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is that of Linux")
def test_no_process_that_a_command_can_read_shows_the_agents_secrets(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    """The agent itself, the watch beside the command, the command, and all that they started."""
    read = 'cat /proc/$PPID/environ /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep -a c4nary; env; true'
    with agent_desk(
        manager, tmp_path, command(read), say("Done."), dialect="openai", key="c4nary-key"
    ) as desk:
        env = {"OPENAI_API_KEY": "c4nary-key", "DATABASE_URL": "pg://c4nary", "MYSQL_PWD": "c4nary-password"}
        ended = desk.run("-p", "look", "--allow", "os_assistant_run_shell_command", env=env)
        assert ended.code == 0, ended.err
        [result] = desk.model.requests[1].results
        assert "PATH=" in result
        assert "c4nary" not in result


def test_the_debugging_log_has_no_words_and_no_keys(manager: ManagerProcess, tmp_path: Path) -> None:
    canary = "canary-4711"
    with agent_desk(manager, tmp_path, say(canary), dialect="openai", key="key-canary-0815") as desk:
        env = {"OPENAI_API_KEY": "key-canary-0815", "LMTB_AGENT_DEBUG": "1"}
        assert desk.run("-p", f"say {canary}", env=env).out == f"{canary}\n"
        log = Path(desk.environ["LMTB_STATE_DIR"]) / "logs" / "agent-debug.log"
        [line] = log.read_text().splitlines()
        assert json.loads(line)["outcome"] == "completed"
        assert "canary" not in line
        assert not list(desk.project.rglob("*.log*"))
        folders = [Path(desk.environ[name]) for name in ("LMTB_STATE_DIR", "LMTB_CONFIG_DIR")] + [
            desk.project
        ]
        files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
        assert not any(b"key-canary" in file.read_bytes() for file in files)


def test_a_tool_is_allowed_also_where_the_provider_is_named(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, command("touch made"), say("a")) as desk:
        allow = "--allow=os_assistant_run_shell_command"
        assert desk.run("--provider", "ollama", "-p", "make it", allow).code == 0
        assert (desk.project / "made").exists()


def test_a_call_that_changes_something_needs_to_be_allowed(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = [turn for _ in range(3) for turn in (command("touch made"), say("a"))]
    with agent_desk(manager, tmp_path, *turns) as desk:
        assert desk.run("-p", "make it").code == 0
        assert not (desk.project / "made").exists()
        assert "--allow" in desk.model.requests[1].results[0]
        wrong = desk.run("-p", "make it", "--allow", "os_assistant_run_shel_command")
        assert (
            "--allow os_assistant_run_shel_command: there is no such tool; "
            "did you mean os_assistant_run_shell_command?"
        ) in " ".join(wrong.err.split())
        assert desk.run("-p", "make it", "--allow", "os_assistant_run_shell_command").code == 0
        assert (desk.project / "made").exists()
        assert [line["decision"] for line in desk.audit()][-2:] == ["DENIED", "ALLOWED"]


def test_a_model_that_calls_for_ever_ends_with_its_own_exit_code(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    turns = [call("calculator", {"expression": f"1 + {number}"}) for number in range(9)]
    with agent_desk(manager, tmp_path, *turns, settings="loop_limit = 3") as desk:
        ended = desk.run("-p", "count", "--json")
        assert ended.code == 3
        assert ended.events[-1]["outcome"] == "limit_reached"
        assert len(desk.model.requests) == 3


def test_a_provider_that_refuses_is_told_in_one_line(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, Refuse(404, "model 'tiny' not found")) as desk:
        ended = desk.run("-p", "hello")
        assert (ended.code, ended.out) == (4, "")
        assert "ollama" in ended.err
        assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("--nonsense",),
        ("nonsense",),
        ("--allow", "x"),
        ("--json",),
        ("-p",),
        ("--provider", "nobody", "-p", "x"),
        ("-p", " "),
        ("-p", "-"),
    ],
)
def test_wrong_usage_has_exit_code_2(manager: ManagerProcess, tmp_path: Path, words: tuple[str, ...]) -> None:
    with agent_desk(manager, tmp_path) as desk:
        ended = desk.run(*words)
        assert ended.code == 2, ended
        assert desk.model.requests == []


@pytest.mark.parametrize("words", [("-p", "x"), ("-p", "x", "--json"), ()])
def test_a_reader_that_has_gone_ends_the_agent_quietly(
    manager: ManagerProcess, tmp_path: Path, words: tuple[str, ...]
) -> None:
    with agent_desk(manager, tmp_path, say("a"), say("b")) as desk:
        reading, writing = os.pipe()
        os.close(reading)
        try:
            ended = subprocess.run(
                [sys.executable, "-I", "-m", "manager", "agent", *words], env=desk.environ, cwd=desk.project,
                input=b"x\ny\n", stdout=writing, stderr=subprocess.PIPE, timeout=50, check=False,
            )  # fmt: skip
        finally:
            os.close(writing)
        assert (ended.returncode, ended.stderr) == (1, b"")


def test_a_text_that_is_not_utf8_reaches_the_model(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("a")) as desk:
        ended = subprocess.run(
            [sys.executable, "-I", "-m", "manager", "agent", "-p", "-"], env=desk.environ, cwd=desk.project,
            input=b"caf\xc3", capture_output=True, timeout=50, check=False,
        )  # fmt: skip
        assert (ended.returncode, ended.stdout) == (0, b"a\n")
        assert desk.model.requests[0].body["messages"][-1]["content"] == "caf\ufffd"


def test_a_session_in_a_pipe_is_plain_text(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (command("touch made"), say("**bold**\n\n- item"))
    with agent_desk(manager, tmp_path, *turns) as desk:
        ended = desk.run(typed="/help\nmake it\n/last\n")
        assert ended.code == 0
        assert "/servers" in ended.out
        assert "GUARD - ACTION PENDING\n" in ended.out
        assert "**bold**" in ended.out
        assert "\x1b" not in ended.out
        assert "│" not in ended.out
        assert not (desk.project / "made").exists()
        assert "User denied execution" in desk.model.requests[1].results[0]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colours_gets_no_escape_codes(
    manager: ManagerProcess, tmp_path: Path, env: dict[str, str]
) -> None:
    with agent_desk(manager, tmp_path, command("touch made"), say("All done.")) as desk:
        desk.environ.update(env)
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("make it\n")
            terminal.sees("Execute? ([y]/n):")
            terminal.press("y\n")
            terminal.sees("All done.")
            terminal.press("/quit\n")
            assert terminal.ended() == 0
            assert b"\x1b" not in terminal.printed
        assert (desk.project / "made").exists()


def test_ctrl_d_at_a_question_denies_the_call_alone(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, command("touch one"), command("touch two"), say("Over.")) as desk:
        desk.environ["NO_COLOR"] = "1"
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("make them\n")
            terminal.sees("touch one")
            terminal.sees("Execute?")
            terminal.press("\x04")
            terminal.see(
                lambda shown: "touch two" in shown and shown.count("Execute?") == 2, "the next question"
            )
            terminal.press("y\n")
            shown = terminal.see(
                lambda shown: "Over." in shown and shown.rstrip().endswith("\n>"), "the prompt"
            )
            assert "Execute? ([y]/n):\nSYSTEM OUTPUT LOG" in shown
            terminal.press("\x04")
            assert terminal.ended() == 0
        assert not (desk.project / "one").exists()
        assert (desk.project / "two").exists()


@pytest.mark.always
def test_the_tools_are_listed(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path) as desk:
        names = desk.run("list").out.split()
        assert {"lm_readFile", "calculator", "os_assistant_run_shell_command"} <= set(names)
        listed = json.loads(desk.run("list", "--json").out)
        assert {tool["name"] for tool in listed["tools"]} == set(names)
        assert listed["sources"]["manager"]["state"] == "ready"


def test_a_session_is_continued(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("Nice to meet you."), say("You are Ada.")) as desk:
        assert desk.run("-p", "I am Ada").code == 0
        assert desk.run("--continue", "-p", "who am I?").out == "You are Ada.\n"
        texts = [message["content"] for message in desk.model.requests[1].body["messages"]]
        assert texts[-3:] == ["I am Ada", "Nice to meet you.", "who am I?"]


def test_the_configuration_of_ollmcpc_is_taken_over(manager: ManagerProcess, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    servers = [{"name": "clock", "command": "date -u", "enabled": False}, {"command": "x"}]
    old.write_text(
        json.dumps(
            {
                "default_provider": "gemini",
                "gemini_model": "flash",
                "gemini_api_key": "canary-4711",
                "servers": servers,
            }
        )
    )
    with agent_desk(manager, tmp_path) as desk:
        ended = desk.run("config", "--import", str(old))
        assert ended.code == 0, ended
        assert "server 2 has no name or no command" in ended.out
        settings = json.loads(desk.run("config", "--json").out)["settings"]
        assert (settings["default_provider"], settings["model"]["gemini"]) == ("gemini", "flash")
        workspace_file = desk.config_file.with_name("workspace.toml").read_text()
        assert 'namespace = "clock"' in workspace_file
        assert "enabled = false" in workspace_file
        stored = manager.lmtb("secrets", "list", "--json")
        assert "gemini" in json.loads(stored.stdout)["keys"]
        files = [path for path in desk.config_file.parent.rglob("*") if path.is_file()]
        assert all(b"canary-4711" not in path.read_bytes() for path in files)


def test_tools_are_offered_over_websockets_until_it_is_stopped(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    with agent_desk(manager, tmp_path) as desk:
        command_line = [sys.executable, "-I", "-m", "manager", "agent", "serve", "--json"]
        process = subprocess.Popen(command_line, env=desk.environ, cwd=desk.project, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            served = json.loads(process.stdout.readline())
            names = asyncio.run(_offered(served["address"], served["token"]))
            assert "lm_readFile" in names
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(30)
            process.stdout.close()
        assert code == 0


async def _offered(address: str, token: str) -> set[str]:
    async with ToolClient(address, token=token) as client:
        return {tool["name"] for tool in await client.list_tools()}


def test_ctrl_c_ends_a_single_turn_with_its_own_exit_code(manager: ManagerProcess, tmp_path: Path) -> None:
    silent = Broken(say("never"), after=0, how="silent")
    with agent_desk(manager, tmp_path, silent) as desk:
        process = subprocess.Popen(
            [sys.executable, "-I", "-m", "manager", "agent", "-p", "hello", "--json"], env=desk.environ,
            cwd=desk.project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        deadline = time.monotonic() + within(20)
        while not desk.model.requests and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130, err
        assert json.loads(out.splitlines()[-1])["outcome"] == "cancelled"
        assert "Traceback" not in err


def test_a_model_that_repeats_its_call_ends_with_its_own_exit_code(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    with agent_desk(manager, tmp_path, *[call("calculator", {"expression": "1 + 1"})] * 9) as desk:
        ended = desk.run("-p", "count", "--json")
        assert (ended.code, ended.events[-1]["outcome"]) == (3, "repeated_calls")
        assert len(desk.model.requests) == 4


def test_without_a_manager_the_local_tools_go_on(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (call("os_assistant_uptime", {}), say("For long."))
    with agent_desk(manager, tmp_path, *turns) as desk:
        text = desk.config_file.read_text()
        desk.config_file.write_text(text.replace(manager.address, "http://127.0.0.1:9/mcp"))
        ended = desk.run("-p", "how long is it up?")
        assert (ended.code, ended.out) == (0, "For long.\n"), ended.err
        assert "run lmtb up" in " ".join(ended.err.split())
        assert desk.model.requests[1].results[0].startswith("Up ")
        assert not list(desk.project.rglob("*.log*"))


def test_whoami_shows_the_agent_like_any_client(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, say("a")) as desk:
        assert desk.run("-p", "hello").code == 0
        clients = json.loads(manager.lmtb("whoami", "--json", cwd=desk.project).stdout)["clients"]
        [agent] = [one for one in clients if one["name"] == "lmtb-agent"]
        [request] = [one for one in agent["requests"] if one["method"] == "tools/list"][-1:]
        assert request["sent"] == {"X-Workspace-Cwd": str(desk.project)}
        assert request["workspace"].startswith("project-")


def test_what_a_project_says_of_providers_counts_only_if_it_is_trusted(
    manager: ManagerProcess, tmp_path: Path
) -> None:
    settings = 'key_sources = ["dotenv"]'
    with (
        agent_desk(manager, tmp_path, say("mine"), dialect="openai", settings=settings) as desk,
        model_in_thread(say("theirs"), key="key-of-dotenv") as theirs,
    ):
        file = desk.project / ".lm-tools-bridge" / "providers.json"
        file.parent.mkdir()
        file.write_text(json.dumps({"providers": [{"name": "openai", "apiBase": theirs.base("openai")}]}))
        (desk.project / ".env").write_text("OPENAI_API_KEY=key-of-dotenv\n")
        desk.project = desk.project / "src"
        desk.project.mkdir()
        ended = desk.run("-p", "hello")
        assert (ended.out, theirs.requests) == ("mine\n", [])
        assert "apiBase of openai is ignored" in " ".join(ended.err.split())
        assert "authorization" not in desk.model.requests[0].headers
        assert manager.lmtb("trust", "--yes", cwd=desk.project).returncode == 0
        ended = desk.run("-p", "hello")
        assert (ended.out, "ignored" in ended.err) == ("theirs\n", False), ended.err


def test_a_forbidden_tool_stays_forbidden_without_questions(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (call("calculator", {"expression": "6 * 7"}), say("It is forbidden."))
    with agent_desk(manager, tmp_path, *turns, settings="human_in_loop = false") as desk:
        assert manager.lmtb("tools", "deny", "calculator", cwd=desk.project).returncode == 0
        try:
            assert desk.run(typed="6 * 7?\n").code == 0
        finally:
            manager.lmtb("tools", "allow", "calculator", cwd=desk.project)
        assert "42" not in desk.model.requests[1].results[0]
