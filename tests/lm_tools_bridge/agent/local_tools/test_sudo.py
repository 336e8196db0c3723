"""The password of sudo reaches sudo, once, and nothing else."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from lm_tools_bridge.agent.agent_settings import AgentSettings
from lm_tools_bridge.agent.interaction import Box
from lm_tools_bridge.agent.local_tools import sudo
from lm_tools_bridge.agent.local_tools.source import LocalTools
from lm_tools_bridge.agent.local_tools.sudo import Sudo, askpass_channel
from lm_tools_bridge.agent.tool_source import Outcome
from lm_tools_bridge.machine.process_ending import read_variables
from support.clients.scripted_person import ScriptedPerson
from support.processes.timeouts import GUARD_S, within

FAKE_SUDO = r"""#!/bin/sh
# what sudo does with -A: ask the askpass program, then run the command
[ "$1" = -A ] || { echo "no -A" >&2; exit 1; }
shift
password=$("$SUDO_ASKPASS" '[sudo] password for me: ') || { echo "no password was provided" >&2; exit 1; }
printf '%s' "$password" | sha256sum | cut -d' ' -f1 > DIGEST
"$SUDO_ASKPASS" again > SECOND 2>/dev/null
sleep 0.5
exec "$@"
"""
CANARY = "c4n4ry-$HOME`id`'\"\\ ä\u2028!"


@pytest.fixture
def fake_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A `sudo` on the PATH; the temporary folder is the test's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "sudo"
    places = {name: str(tmp_path / name.lower()) for name in ("DIGEST", "SECOND")}
    program.write_text(FAKE_SUDO.replace("DIGEST", places["DIGEST"]).replace("SECOND", places["SECOND"]))
    program.chmod(0o755)

    def is_fake_sudos(pid: int, *_: object) -> bool:
        parent = psutil.Process(pid).parent()
        return parent is not None and str(program) in parent.cmdline()

    monkeypatch.setattr(sudo, "asks_for_sudo", is_fake_sudos)
    private = Path(tempfile.mkdtemp(prefix="lmtb-t", dir="/tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    yield private
    shutil.rmtree(private, ignore_errors=True)


@contextmanager
def watched(secret: str) -> Iterator[list[str]]:
    """Polls the command lines and environments of all processes; yields where the secret was seen."""
    seen: list[str] = []
    stop, polls = threading.Event(), 0
    needle = secret[:10]

    def poll() -> None:
        nonlocal polls
        while not stop.is_set():
            polls += 1
            for process in psutil.process_iter():
                with suppress(psutil.Error, OSError):
                    if needle in " ".join(process.cmdline()) or needle in str(read_variables(process.pid)):
                        seen.append(process.name())

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()
    assert polls > 2


async def run(workspace: Path, person: ScriptedPerson, command: str) -> Outcome:
    tools = LocalTools(workspace, AgentSettings(sudo="askpass"), Sudo(person, allowed=True))
    return await tools.call("os_assistant_run_shell_command", {"command": command}, lambda _: None)


def text_of(outcome: Outcome) -> str:
    return str(outcome.content[0]["text"])


async def test_the_watch_sees_what_leaks(tmp_path: Path, fake_sudo: Path) -> None:
    with watched("leaked-canary") as seen:
        await run(tmp_path, ScriptedPerson("p"), ": leaked-canary; sleep 0.5; sudo true")
    assert seen


@pytest.mark.parametrize("command", ["sudo echo done", "true; sudo echo done", 'bash -c "sudo echo done"'])
async def test_the_password_reaches_sudo_and_nothing_else(
    tmp_path: Path, fake_sudo: Path, command: str
) -> None:
    person = ScriptedPerson(CANARY)
    with watched(CANARY) as seen:
        outcome = await run(tmp_path, person, command)
    assert (text_of(outcome), outcome.is_error) == ("done", False)
    assert (tmp_path / "digest").read_text().strip() == hashlib.sha256(CANARY.encode()).hexdigest()
    assert seen == []
    assert CANARY[:10] not in person.shown + repr(outcome) + repr(person.events)
    assert not any(CANARY[:10].encode() in one.read_bytes() for one in tmp_path.rglob("*") if one.is_file())
    assert list(fake_sudo.iterdir()) == []


async def test_the_person_sees_the_command_and_types_unseen(tmp_path: Path, fake_sudo: Path) -> None:
    person = ScriptedPerson("p")
    await run(tmp_path, person, "sudo echo \x1b[2J")
    assert person.boxes == [(Box.SUDO, ["Command:  sudo echo \\x1b[2J"])]
    (question,) = person.questions
    assert (question.prompt.strip(), question.hidden, question.initial) == ("[sudo] password:", True, "")


async def test_the_password_is_given_once(tmp_path: Path, fake_sudo: Path) -> None:
    await run(tmp_path, ScriptedPerson(CANARY), "sudo true")
    assert (tmp_path / "digest").exists()
    assert (tmp_path / "second").read_text() == ""


@pytest.mark.parametrize("answer", ["", None])
async def test_without_a_password_nothing_runs(tmp_path: Path, fake_sudo: Path, answer: str | None) -> None:
    outcome = await run(tmp_path, ScriptedPerson(answer), "touch ran; sudo true")
    assert (outcome.is_error, outcome.delivered) == (True, False)
    assert text_of(outcome) == "no password was given, so the command was not run"
    assert not (tmp_path / "ran").exists()


async def test_a_command_that_prints_the_password_is_masked(
    tmp_path: Path, fake_sudo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sudo, "asks_for_sudo", lambda *_: True)
    thief = '"${PATH%%:*}/askpass"; echo " $(sudo true)"'
    outcome = await run(tmp_path, ScriptedPerson("sesame-open"), thief)
    assert "sesame-open" not in text_of(outcome)
    assert "[hidden]" in text_of(outcome)


async def test_another_process_of_the_user_gets_nothing(tmp_path: Path, fake_sudo: Path) -> None:
    task = asyncio.create_task(run(tmp_path, ScriptedPerson(CANARY), "touch begun; sleep 1; sudo echo done"))
    async with asyncio.timeout(within(10)):
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
    (found,) = fake_sudo.rglob("askpass.sock")
    assert (found.stat().st_mode & 0o777, found.parent.stat().st_mode & 0o777) == (0o600, 0o700)

    def ask() -> bytes:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(5)
            peer.connect(str(found))
            return peer.recv(100)

    assert await asyncio.to_thread(ask) == b""
    assert text_of(await task) == "done"


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
async def test_no_core_file_of_the_agent_can_hold_the_password(tmp_path: Path, fake_sudo: Path) -> None:
    libc, dumpable = ctypes.CDLL(None), list[int]()

    async def typed() -> str:
        dumpable.append(libc.prctl(3, 0, 0, 0, 0))
        return CANARY

    before = libc.prctl(3, 0, 0, 0, 0)
    await run(tmp_path, ScriptedPerson(typed), "sudo true")
    assert (dumpable, libc.prctl(3, 0, 0, 0, 0)) == ([0], before)


async def test_a_cancelled_question_runs_nothing_and_leaves_nothing(tmp_path: Path, fake_sudo: Path) -> None:
    with pytest.raises(asyncio.CancelledError):
        await run(tmp_path, ScriptedPerson(asyncio.CancelledError()), "touch ran; sudo true")
    assert (list(fake_sudo.iterdir()), (tmp_path / "ran").exists()) == ([], False)


@pytest.mark.skipif(shutil.which("sudo") is None, reason="sudo is not installed")
@pytest.mark.skipif(os.geteuid() == 0, reason="sudo asks root for no password")
async def test_the_real_sudo_takes_the_askpass_program(tmp_path: Path) -> None:
    """A wrong password: sudo tries it once, and gets no second one."""
    with watched("wrong-on-purpose") as seen:
        outcome = await run(tmp_path, ScriptedPerson("wrong-on-purpose"), "sudo -k; sudo id -u")
    assert (seen, outcome.is_error) == ([], True)
    assert "no password was provided" in text_of(outcome)


SET_UID_SUDO = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words) {
    char line[200] = "";
    int ends[2];
    if (pipe(ends) != 0) return 1;
    if (fork() == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        execl(getenv("SUDO_ASKPASS"), "askpass", "password:", (char *)0);
        _exit(1);
    }
    close(ends[1]);
    FILE *answer = fdopen(ends[0], "r");
    printf("sudo got %s", fgets(line, sizeof line, answer) ? "a password\n" : "nothing\n");
    return 0;
}
"""
BEHIND_AN_EMPTY_VARIABLE = r"""
#include <unistd.h>
int main(int count, char **words) {
    char *variables[] = {"", "LD_PRELOAD=./x.so", 0};
    return execve(words[1], words + 1, variables);
}
"""
THIEVES = {
    "a program beside sudo": '"${PATH%%:*}/askpass" | rev; sudo true',
    "the variable of sudo": '"$SUDO_ASKPASS" | rev; sudo true',
    "a program that a script of the project calls": "sh ./thief; sudo true",
    "another askpass program": 'printf \'#!/bin/sh\\n"%s/askpass" | rev >&2\' "${PATH%%:*}" > t; chmod +x t; SUDO_ASKPASS=./t real -A true',
    "a preloaded library": "LD_PRELOAD=./x.so sudo true",
}  # fmt: skip


@pytest.fixture
def set_uid_sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for sudo that is a set-uid file of root."""
    compiler = shutil.which("cc")
    if compiler is None or os.geteuid() != 0 or sys.platform != "linux":
        pytest.skip("only root can make such a file, and cc has to be there")
    folder = tmp_path / "bin"
    folder.mkdir()
    _compile(compiler, folder / "preload", BEHIND_AN_EMPTY_VARIABLE)
    for name in ("sudo", "real"):
        _compile(compiler, folder / name, SET_UID_SUDO)
        (folder / name).chmod(0o4755)
    (tmp_path / "thief").write_text('"${PATH%%:*}/askpass" | rev\n')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def _compile(compiler: str, program: Path, text: str) -> None:
    subprocess.run([compiler, "-w", "-x", "c", "-o", str(program), "-"], input=text, text=True, check=True)


async def test_the_real_sudo_is_answered(tmp_path: Path, set_uid_sudo: Path) -> None:
    assert text_of(await run(tmp_path, ScriptedPerson("sesame-open"), "sudo true")) == "sudo got a password"


@pytest.mark.parametrize("thief", THIEVES)
async def test_nothing_but_the_real_sudo_gets_the_password(
    tmp_path: Path, set_uid_sudo: Path, thief: str
) -> None:
    text = text_of(await run(tmp_path, ScriptedPerson("sesame-open"), THIEVES[thief]))
    assert "nepo-emases" not in text
    assert "sesame" not in text


BEHIND_OUR_PROGRAM = """#!PYTHON
# another askpass program: it leaves a child behind and becomes ours, so that its process id is that of ours
import os, socket, sys
ours, stolen = OURS, STOLEN
peer = socket.socket(socket.AF_UNIX)
MOVE
def keep(data):
    with open(stolen + ".new", "wb") as file:
        file.write(data)
    os.rename(stolen + ".new", stolen)
    os._exit(0)
if os.fork() == 0:
    READ
os.execv(ours[0], ours)
"""
MOVES = {
    "a connection that a child keeps": (
        "peer.connect(ours[-1])",
        "socket.send_fds(peer, [b'1'], [1]); keep(peer.recv(100))",
        "a password",
    ),
    "a pipe of its own over a connection that a child keeps": (
        "peer.connect(ours[-1])",
        "end, start = os.pipe(); socket.send_fds(peer, [b'1'], [start]); os.close(start); keep(os.read(end, 100))",
        "a password",
    ),
    "a pipe of its own as the output of our program": (
        "end, start = os.pipe(); os.dup2(start, 1); os.close(start)",
        "os.close(1); keep(os.read(end, 100))",
        "nothing",
    ),
    "a socket as the output of our program": (
        "end, start = socket.socketpair(); os.dup2(start.fileno(), 1); start.close()",
        "os.close(1); keep(end.recv(100))",
        "nothing",
    ),
}


@pytest.mark.parametrize("move", MOVES)
async def test_a_program_that_becomes_ours_gets_no_password(
    tmp_path: Path, set_uid_sudo: Path, move: str
) -> None:
    prepare, read, answer = MOVES[move]
    stolen = tmp_path / "stolen"
    async with askpass_channel("sesame-open") as channel:
        private = Path(channel.variables["PATH"].partition(":")[0])
        ours = shlex.split((private / "askpass").read_text().partition("exec ")[2])
        thief = BEHIND_OUR_PROGRAM.replace("MOVE", prepare).replace("READ", read)
        thief = thief.replace("OURS", repr(ours)).replace("STOLEN", repr(str(stolen)))
        (tmp_path / "t").write_text(thief.replace("PYTHON", sys.executable))
        (tmp_path / "t").chmod(0o755)
        sudo = await asyncio.create_subprocess_exec(
            set_uid_sudo / "real", env={"SUDO_ASKPASS": str(tmp_path / "t")}, stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(GUARD_S):
            while [asking.cmdline() for asking in psutil.Process(sudo.pid).children()] != [ours]:
                await asyncio.sleep(0.01)
            # a busy or stopped agent answers only now: the process that connected has become our program
            channel.session.set_result(os.getsid(sudo.pid))
            printed, _ = await sudo.communicate()
            while not stolen.exists():
                await asyncio.sleep(0.01)
    assert (stolen.read_bytes(), printed.decode()) == (b"", f"sudo got {answer}\n")


async def test_a_library_that_is_preloaded_behind_an_empty_variable_gets_no_password(
    tmp_path: Path, set_uid_sudo: Path
) -> None:
    wrap = (
        'sed "s|^exec |exec preload |" "${PATH%%:*}/askpass" > t; chmod +x t; SUDO_ASKPASS=./t real -A true'
    )
    text = text_of(await run(tmp_path, ScriptedPerson("sesame-open"), f"{wrap}; sudo true"))
    assert text.splitlines()[-2:] == ["sudo got nothing", "sudo got a password"]


def test_a_process_that_no_sudo_started_is_not_sudos() -> None:
    end, start = os.pipe()
    session, program = os.getsid(0), psutil.Process().cmdline()
    assert not sudo.asks_for_sudo(os.getpid(), session, program, start)
    assert not sudo.asks_for_sudo(2**22 + 1, session, [], start)
    os.close(end)
    os.close(start)


@contextmanager
def outputs(folder: Path) -> Iterator[dict[str, int]]:
    """Descriptors that a program could hand over, by what they are."""
    (end, start), (other, our), (terminal, line) = os.pipe(), socket.socketpair(), os.openpty()
    os.mkfifo(folder / "fifo")
    fifo_end = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    made = {
        "a pipe of root's": start,
        "the end for reading": end,
        "a path to the pipe": os.open(f"/proc/self/fd/{start}", os.O_PATH),
        "both ends": os.open(f"/proc/self/fd/{start}", os.O_RDWR),
        "a socket": our.fileno(),
        "a terminal": line,
        "a file": os.open(folder / "file", os.O_WRONLY | os.O_CREAT),
        "a FIFO in a file system": os.open(folder / "fifo", os.O_WRONLY),
        "a pipe of another user's": pipe_of_another_user(),
    }
    try:
        yield made
    finally:
        for descriptor in {*made.values(), terminal, fifo_end} - {our.fileno()}:
            os.close(descriptor)
        our.close()
        other.close()


def pipe_of_another_user() -> int:
    make = "import os, socket; socket.send_fds(socket.socket(fileno=0), [b'1'], [os.pipe()[1]])"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        program = ["/usr/bin/env", "python3", "-I", "-c", make]
        subprocess.run(program, stdin=theirs, user=65534, check=True, timeout=GUARD_S)
        (descriptor,) = socket.recv_fds(ours, 1, 1)[1]
    return descriptor


@pytest.mark.skipif(os.geteuid() != 0 or sys.platform != "linux", reason="only root makes a pipe of root's")
def test_only_the_end_for_writing_of_a_pipe_that_root_made_can_be_sudos(tmp_path: Path) -> None:
    with outputs(tmp_path) as descriptors:
        taken = [name for name, descriptor in descriptors.items() if sudo.is_pipe_of_root(descriptor)]
    assert taken == ["a pipe of root's"]
