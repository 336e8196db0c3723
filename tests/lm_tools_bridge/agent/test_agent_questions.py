"""What the agent asks at a terminal: approvals, edited inputs, a password, and a question again."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes.managers.manager_process import ManagerProcess, running_manager
from support.processes.terminals.agent_desk import agent_desk, command, prompts
from support.servers.models.formats.steps import say
from support.servers.models.model_server import Refuse

pytestmark = [pytest.mark.timeout(180), pytest.mark.terminals]

SET_UID_SUDO = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) {  // what sudo does with -A, as far as it matters here
    char line[200] = "";
    int ends[2];
    if (count < 3 || pipe(ends) != 0) return 1;
    if (fork() == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        execl(getenv("SUDO_ASKPASS"), "askpass", "password:", (char *)0);
        _exit(1);
    }
    close(ends[1]);
    if (!fgets(line, sizeof line, fdopen(ends[0], "r"))) return 1;
    line[strcspn(line, "\n")] = 0;
    FILE *digest = popen("sha256sum > digest", "w");
    fputs(line, digest);
    pclose(digest);
    execvp(words[2], words + 2);
    return 1;
}
"""


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerProcess]:
    with running_manager(tmp_path_factory.mktemp("user")) as running:
        yield running


@pytest.mark.parametrize(("answer", "runs"), [("\r", True), ("n\r", False)])
def test_a_command_runs_only_after_a_yes(
    manager: ManagerProcess, tmp_path: Path, answer: str, runs: bool
) -> None:
    with agent_desk(manager, tmp_path, command("touch made"), say("Done so far.")) as desk:
        with desk.agent() as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("make it\r")
            shown = terminal.sees("Execute? ([y]/n):")
            assert '│ Inputs:  {"command":"touch made"}' in shown.replace('": "', '":"')
            assert not (desk.project / "made").exists()
            terminal.press(answer)
            terminal.sees("Done so far.")
            assert (desk.project / "made").exists() is runs
        [result] = desk.model.requests[1].results
        assert ("User denied execution" in result) is not runs


def test_what_is_typed_before_a_question_does_not_answer_it(manager: ManagerProcess, tmp_path: Path) -> None:
    with agent_desk(manager, tmp_path, command("rm -f x"), say("Over.")) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("clean up\ry\ry\r")
        terminal.sees("Execute? (y/[n]):")
        terminal.press("\r")
        terminal.sees("Over.")
        assert "User denied execution" in desk.model.requests[1].results[0]


@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("cc") is None,
    reason="only root can make a set-uid file of root, and cc has to be there",
)
def test_a_password_is_typed_unseen_and_kept_nowhere(manager: ManagerProcess, tmp_path: Path) -> None:
    canary = "c4n4ry-$x`y`'\""
    turns = (command("sudo echo became root"), say("Done as root."))
    settings = 'sudo = "askpass"\ndebug = true'
    with agent_desk(manager, tmp_path, *turns, settings=settings) as desk:
        program = tmp_path / "bin" / "sudo"
        program.parent.mkdir()
        source = tmp_path / "sudo.c"
        source.write_text(SET_UID_SUDO)
        subprocess.run(["cc", "-w", "-o", str(program), str(source)], check=True)
        program.chmod(0o4755)
        desk.environ["PATH"] = f"{program.parent}:{desk.environ['PATH']}"
        with desk.agent(rows=40) as terminal:
            terminal.sees("HIL: ACTIVE")
            terminal.press("become root\r")
            terminal.sees("Execute? (y/[n]):")
            terminal.press("y\r")
            shown = terminal.sees("[sudo] password:")
            assert "╭─ SUDO ─" in shown
            assert "│ Command:  sudo echo became root" in shown
            terminal.press(f"{canary}\r")
            terminal.sees("Done as root.")
            assert canary[:8].encode() not in terminal.printed
        assert hashlib.sha256(canary.encode()).hexdigest() in (desk.project / "digest").read_text()
        assert "became root" in desk.model.requests[1].results[0]
        assert canary[:8] not in str([request.body for request in desk.model.requests])
        files = [file for file in Path(desk.environ["LMTB_STATE_DIR"]).rglob("*") if file.is_file()]
        assert {"agent-audit.log", "agent-debug.log"} <= {file.name for file in files}
        assert not any(canary[:8].encode() in file.read_bytes() for file in files)


def test_inputs_are_edited_at_the_question(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (command("touch wrong"), command("touch right"), say("Done so far."))
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent(rows=40) as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("make it\r")
        terminal.sees("Execute?")
        terminal.press("e\r")
        terminal.sees('Inputs as JSON: {"command": "touch wrong"}')
        terminal.press('\x01\x0b{"command": "touch right"}\r')
        terminal.see(lambda shown: shown.count("Execute?") == 2, "the question again")
        terminal.press("a\r")  # this exact command: the second call of it is not asked about
        terminal.sees("Done so far.")
        assert (desk.project / "right").exists()
        assert not (desk.project / "wrong").exists()
        assert [line["decision"] for line in desk.audit()][-2:] == ["ALLOWED", "ALLOWED"]


def test_a_question_that_failed_is_there_to_be_asked_again(manager: ManagerProcess, tmp_path: Path) -> None:
    turns = (
        Refuse(404, "model 'tiny' not found"),
        say("Here I am."),
    )  # import Refuse from support.servers.models.model_server
    with agent_desk(manager, tmp_path, *turns) as desk, desk.agent() as terminal:
        terminal.sees("HIL: ACTIVE")
        terminal.press("hello there\r")
        terminal.sees("not found")
        prompts(terminal)
        terminal.press("\x1b[A")
        terminal.see(lambda shown: shown.rstrip().endswith("> hello there"), "the question")
        terminal.press("\r")
        terminal.sees("Here I am.")
        assert [message["role"] for message in desk.model.requests[1].body["messages"]] == ["system", "user"]
