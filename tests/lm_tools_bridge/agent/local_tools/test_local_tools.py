"""The agent's own tools: measurements, and shell commands with all their limits."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.local_tools.command_process import MAX_OUTPUT
from lm_tools_bridge.agent.local_tools.source import TOOLS, LocalTools
from lm_tools_bridge.agent.local_tools.sudo import Root, Sudo, becomes_root
from lm_tools_bridge.agent.tool_source import Outcome
from support.clients.scripted_person import ScriptedPerson
from support.processes.timeouts import within


def tools_of(workspace: Path, person: ScriptedPerson | None = None, **settings: Any) -> LocalTools:
    sudo = Sudo(person or ScriptedPerson(), allowed=settings.get("sudo") == "askpass")
    return LocalTools(workspace, AgentSettings(**settings), sudo)


async def call(tools: LocalTools, name: str, /, **arguments: Any) -> Outcome:
    return await tools.call(f"os_assistant_{name}", arguments, lambda _: None)


async def run(workspace: Path, command: str, **arguments: Any) -> tuple[str, bool]:
    outcome = await call(tools_of(workspace), "run_shell_command", command=command, **arguments)
    return text_of(outcome), outcome.is_error


def text_of(outcome: Outcome) -> str:
    return str(outcome.content[0]["text"])


def with_argument(part: str) -> list[int]:
    """The living processes with this text in their command line."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        is_zombie = process.info["status"] == psutil.STATUS_ZOMBIE
        if any(part in one for one in process.info["cmdline"] or ()) and not is_zombie:
            found.append(process.pid)
    return found


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("cpu_usage", "CPU: "), ("memory_usage", "Memory: "), ("disk_usage", " free "), ("uptime", "Up "),
        ("process_list", "NAME"), ("environment", "HOME="),
    ],
)  # fmt: skip
async def test_each_measurement_gives_text(tmp_path: Path, name: str, part: str) -> None:
    outcome = await call(tools_of(tmp_path), name)
    assert part in text_of(outcome)
    assert not outcome.is_error


async def test_only_commands_may_change_something() -> None:
    reads = {tool.name: tool.annotations["readOnlyHint"] for tool in TOOLS}
    assert [name for name, only in reads.items() if not only] == ["os_assistant_run_shell_command"]
    assert len(reads) == 7


async def test_secrets_of_the_environment_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("MY_PASSPHRASE", "OPENAI_API_KEY", "GH_TOKEN", "my_secret_place", "SSH_KEY")
    for name in names:
        monkeypatch.setenv(name, "planted-value")
    text = text_of(await call(tools_of(tmp_path), "environment"))
    assert "planted-value" not in text
    assert all(f"{name}=[redacted]" in text for name in names)
    shown, _ = await run(tmp_path, "env")
    assert "planted-value" not in shown
    missing = await call(tools_of(tmp_path), "environment", name="NO_SUCH")
    assert (missing.is_error, text_of(missing)) == (True, "Error: there is no variable NO_SUCH")


async def test_of_unknown_variables_only_the_names_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("DATABASE_URL", "MYSQL_PWD", "SENTRY_DSN", "CI_JOB_JWT", "SOMETHING")
    for name in names:
        monkeypatch.setenv(name, "planted-value")
    monkeypatch.setenv("http_proxy", "http://me:planted-value@proxy")
    text = text_of(await call(tools_of(tmp_path), "environment"))
    assert "planted-value" not in text
    assert all(f"{name}=[not shown]" in text or f"{name}=[redacted]" in text for name in names)
    assert "http_proxy=http://[hidden]@proxy" in text
    assert "planted-value" not in (await run(tmp_path, "env"))[0]


async def test_variables_that_the_user_names_reach_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "sqlite:///x")
    tools = tools_of(tmp_path, command_variables=("DATABASE_URL", "NO_SUCH"))
    outcome = await call(tools, "run_shell_command", command="echo $DATABASE_URL ${NO_SUCH-unset}")
    assert text_of(outcome) == "sqlite:///x unset"


async def test_processes_can_be_sorted_and_counted(tmp_path: Path) -> None:
    text = text_of(await call(tools_of(tmp_path), "process_list", count=2, sort_by="memory"))
    assert len(text.splitlines()) == 3


async def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    outcome = await call(tools_of(tmp_path), "disk_usage", path="/no/such")
    assert (outcome.is_error, text_of(outcome)) == (True, "Error: /no/such: No such file or directory")


async def test_output_comes_alone_and_from_the_projects_folder(tmp_path: Path) -> None:
    assert await run(tmp_path, "pwd; echo äö >&2") == (f"{tmp_path}\näö", False)


async def test_a_failure_is_an_error_with_its_exit_code(tmp_path: Path) -> None:
    assert await run(tmp_path, "echo out; echo err >&2; exit 3") == ("out\nerr\n[exit code 3]", True)
    assert await run(tmp_path, "exit 3") == ("[exit code 3]", True)
    assert await run(tmp_path, "kill -9 $$") == ("[ended by SIGKILL]", True)


async def test_a_command_has_no_terminal_and_no_input(tmp_path: Path) -> None:
    script = 'read x; echo "<$x>"; tty; (true < /dev/tty) 2>/dev/null && echo has a terminal || echo none'
    text, _ = await run(tmp_path, script)
    assert text == "<>\nnot a tty\nnone"


async def test_floods_are_cut_and_counted(tmp_path: Path) -> None:
    text, is_error = await run(tmp_path, f"head -c {MAX_OUTPUT + 5000} /dev/zero | tr '\\0' x")
    assert text.endswith("xxx\n[truncated: 5000 bytes dropped]")
    assert (len(text) < MAX_OUTPUT + 100, is_error) == (True, False)


async def test_control_sequences_are_removed(tmp_path: Path) -> None:
    text, _ = await run(tmp_path, r"printf 'a\033[2J\033]0;title\007b\r\nc\0\377\t.'")
    assert text == "ab\nc\ufffd\t."


async def test_a_command_ends_at_its_time_with_all_it_started(tmp_path: Path) -> None:
    began = time.monotonic()
    command = "echo begun; setsid sh -c 'trap \"\" TERM; sleep 4711.25' & sleep 4711.25"
    text, is_error = await run(tmp_path, command, timeout_s=0.5)
    assert (text, is_error) == ("begun\n[ended after 0.5 s, with everything it had started]", True)
    assert time.monotonic() - began < within(10)
    assert with_argument("4711.25") == []


async def test_nothing_goes_on_in_the_background(tmp_path: Path) -> None:
    text, is_error = await run(tmp_path, "nohup setsid sleep 4712.25 >/dev/null 2>&1 & echo done")
    assert (text, is_error) == ("done", False)
    assert with_argument("4712.25") == []


async def test_a_cancelled_command_ends_at_once(tmp_path: Path) -> None:
    task = asyncio.create_task(run(tmp_path, "touch begun; sleep 4713.25"))
    async with asyncio.timeout(within(10)):
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert with_argument("4713.25") == []


@pytest.mark.parametrize(
    "arguments",
    [{}, {"command": ""}, {"command": 7}, {"command": "ls", "timeout_s": 0}, {"command": "ls", "timeout_s": 601},
     {"command": "ls", "x": 1}],
)  # fmt: skip
async def test_wrong_arguments_run_nothing(tmp_path: Path, arguments: dict[str, Any]) -> None:
    outcome = await tools_of(tmp_path).call("os_assistant_run_shell_command", arguments, print)
    assert (outcome.is_error, outcome.delivered) == (True, False)


async def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    text, is_error = await run(tmp_path / "gone", "ls")
    assert (text, is_error) == ("Error: the command cannot be started: No such file or directory", True)


async def test_switched_off_there_are_no_local_tools(tmp_path: Path) -> None:
    tools = tools_of(tmp_path, local_tools=False)
    assert list(await tools.list_tools()) == []
    outcome = await call(tools, "uptime")
    assert text_of(outcome) == "Tool not found or disabled: os_assistant_uptime"
    assert "local_tools" in tools.state().detail


@pytest.mark.parametrize(
    "command",
    ["sudo ls", "true; sudo ls", 'bash -c "sudo ls"', "/usr/bin/sudo ls", "x=sudo; $x ls", "$(echo sudo) ls", "doas ls",
     "echo 'sudo ls' | sh", "git -c alias.x='!sudo id' x", "ssh -o ProxyCommand='sudo id' x", "at now <<< 'sudo id'",
     "GIT_PAGER='sudo id' git log", "python3 <<< 'import os; os.system(\"sudo id\")'", "sudo-rs id", "run0 id", "su -c id", "s\\udo id",
     "vim -c '!su\"\"do id'", "echo /usr/bin/su", "pkexec id", "chroot / id", "nsenter -t 1 id", "setpriv id", "runuser -u root id", "capsh --",
     "machinectl shell", "docker run -v /:/h x", "docker run --privileged x", "podman run --mount=type=bind,source=/,target=/h x",
     "docker run -v $HOME:/h x", "ssh root@localhost id", "env sudo ls", "ls | xargs sudo ls", "echo 'open"],
)  # fmt: skip
async def test_commands_that_may_become_root_do_not_run(tmp_path: Path, command: str) -> None:
    person = ScriptedPerson("password")
    outcome = await call(tools_of(tmp_path, person), "run_shell_command", command=f"{command}; touch ran")
    assert (outcome.is_error, outcome.delivered) == (True, False)
    assert text_of(outcome).startswith("root commands are off: ")
    assert 'sudo = "askpass"' in text_of(outcome)
    assert (person.prompts, (tmp_path / "ran").exists()) == ([], False)


@pytest.mark.parametrize(
    "command", ["ls", "echo pseudo", "cat sudoku.txt", "git log --author=susan", "docker ps", "docker run --rm -v .:/work x make",
                "docker build -t x .", "grep -rn result src"]
)  # fmt: skip
def test_other_commands_do_not_become_root(command: str) -> None:
    assert becomes_root(command) is Root.NO


async def test_a_measurement_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    outcome = await call(tools_of(tmp_path, tool_s=0.01), "cpu_usage")
    assert (text_of(outcome), outcome.is_error) == ("Error: nothing was measured within 0.01 s", True)
