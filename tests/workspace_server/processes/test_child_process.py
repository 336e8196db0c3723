"""Child processes: start, pipes, environment, exit."""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
import struct
import subprocess
import sys
import termios
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from support.processes.child_processes import ENV, alive, everything, output, python, sh, until, zombies
from support.processes.timeouts import within
from workspace_server.processes.child_process import ChildProcess, ChildStartError, Command, PipeWriteError
from workspace_server.processes.pipes import CAPACITY


def test_stdin_and_stderr_can_be_opened_by_name(run: Any) -> None:
    async def scenario() -> tuple[bytes, int, list[str]]:
        child = await ChildProcess.start(sh("cat /dev/stdin; echo said >/dev/stderr; exit 3"))
        await child.write(b"one\n", 1)
        await child.write(b"two\n", 1)
        child.close_stdin()
        printed = await everything(child)
        code = await child.wait()
        await child.stop()
        return printed, code, child.stderr.lines()

    assert run(scenario()) == (b"one\ntwo\n", 3, ["said"])


def test_child_has_descriptors_0_1_2_and_no_more(run: Any, tmp_path: Path) -> None:
    """Even one that somebody made inheritable stays here."""
    with (tmp_path / "secret").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        printed = run(output(python("import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))")))
    assert printed == b"[0, 1, 2, 3]\n"  # 3 is the folder it reads


def test_environment_is_exactly_what_was_given_and_the_mark(run: Any) -> None:
    """Also with the C locale, in which interpreters like to set LC_CTYPE."""

    async def scenario(env: dict[str, str]) -> set[bytes]:
        child = await ChildProcess.start(Command(("/bin/cat", "/proc/self/environ"), env, "/"), stdin=False)
        printed = await everything(child)
        await child.stop()
        return set(printed.split(b"\0")) - {b"", f"LMTB_CHILD={child.marker}".encode()}

    assert run(scenario({})) == set()
    assert run(scenario({"A": "1", "B": "é\n"})) == {b"A=1", "B=é\n".encode()}
    assert run(scenario({"LC_CTYPE": "C", "PYTHONPATH": "/x"})) == {b"LC_CTYPE=C", b"PYTHONPATH=/x"}


def test_child_leads_a_session_and_a_group_in_its_folder(run: Any, tmp_path: Path) -> None:
    script = "import os; print(os.getpid() == os.getsid(0) == os.getpgrp(), os.getcwd())"
    assert run(output(python(script, cwd=str(tmp_path)))) == f"True {tmp_path}\n".encode()


def test_signals_have_their_defaults(run: Any) -> None:
    """A child that ignores SIGPIPE would write into the void for ever."""
    lines = run(output(Command(("/bin/cat", "/proc/self/status"), ENV, "/"))).decode().splitlines()
    masks = dict(line.split(":\t") for line in lines if line.startswith("Sig"))
    assert (masks["SigIgn"], masks["SigBlk"]) == ("0" * 16, "0" * 16)


@pytest.mark.parametrize("content", [b"", b"x" * 300_000])
def test_given_content_is_followed_by_the_end_of_the_file(run: Any, content: bytes) -> None:
    """More than a pipe holds, too."""
    assert run(output(sh("cat"), stdin=content)) == content
    assert run(output(sh("cat /dev/stdin"), stdin=content)) == content


def test_without_stdin_nothing_can_be_written(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("read line; echo end"), stdin=False)
        with pytest.raises(PipeWriteError):
            await child.write(b"x", 1)
        assert await everything(child) == b"end\n"
        await child.stop()

    run(scenario())


def _file(folder: Path, name: str, text: str, mode: int) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_a_start_error_names_the_reason_and_the_program_only(run: Any, tmp_path: Path) -> None:
    plain = _file(tmp_path, "plain", "x", stat.S_IRUSR)
    headless = _file(tmp_path, "headless", "#!/no/interpreter\n", 0o700)
    shapeless = _file(tmp_path, "shapeless", "\x7fnothing", 0o700)
    gone = tmp_path / "gone"
    cases = [
        (
            Command(("nowhere --key secret",), ENV, "/"),
            'write "nowhere" as "command", and the rest under "args"',
        ),
        (
            Command(("nowhere", "secret"), ENV, "/"),
            '"nowhere" is not on the PATH of servers; lmtb doctor env shows that PATH',
        ),
        (
            Command(("uvx", "secret"), {"PATH": "/nowhere"}, "/"),
            "if it is not installed, get uv, https://docs.astral.sh/uv;",
        ),
        (
            Command(("npx", "secret"), {"PATH": "/nowhere"}, "/"),
            "if it is not installed, get Node.js, https://nodejs.org;",
        ),
        (Command(("/no/where", "secret"), ENV, "/"), '/no/where": No such file'),
        (Command((plain, "secret"), ENV, "/"), 'plain": Permission denied'),
        (Command(("plain",), {"PATH": str(tmp_path)}, "/"), 'plain": Permission denied'),
        (Command((headless, "secret"), ENV, "/"), 'headless": the interpreter'),
        (Command(("headless",), {"PATH": str(tmp_path)}, "/"), 'headless": the interpreter'),
        (Command((shapeless,), ENV, "/"), 'shapeless": Exec format error'),
        (Command(("sh", "secret"), ENV, str(gone)), 'sh": its working folder: No such file'),
        (Command(("sh", "sec\0ret"), ENV, "/"), 'sh": command or environment'),
        (Command(("sh",), {"A=secret": "x"}, "/"), 'sh": command or environment'),
        (Command((), ENV, "/"), "no command"),
        (Command(("sh", "secret" * 50_000), ENV, "/"), 'sh": Argument list too long'),
        (Command(("plain",), {"PATH": ".:"}, str(tmp_path)), '"plain" is not on the PATH'),
    ]

    async def scenario() -> None:
        for command, words in cases:
            with pytest.raises(ChildStartError) as failure:
                await ChildProcess.start(command)
            assert words in str(failure.value)
            assert "secret" not in str(failure.value)
            assert str(gone) not in str(failure.value)

    run(scenario())


def test_a_launcher_that_does_not_run_is_a_start_error(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ChildStartError, match='sh": its launcher ended before the program started'):
        run(ChildProcess.start(sh("echo")))


def test_cancelled_start_leaves_nothing(run: Any) -> None:
    cancelled: list[int] = []

    async def scenario() -> None:
        for turns in range(6):
            starting = asyncio.create_task(ChildProcess.start(sh("sleep 60")))
            for _ in range(turns):
                await asyncio.sleep(0)
            starting.cancel()
            try:
                child = await starting
            except asyncio.CancelledError:
                cancelled.append(turns)
            else:  # it had started already
                await child.stop(polite_s=0)

    run(scenario())
    assert {0, 1} <= set(cancelled)


def test_wait_returns_when_the_leader_ended_though_others_hold_its_pipes(run: Any) -> None:
    """Asyncio's own wait would hang here."""

    async def scenario() -> None:
        child = await ChildProcess.start(sh("sleep 60 & echo $! ; echo last words >&2; exit 7"))
        other = int(await child.read())
        async with asyncio.timeout(within(1)):
            assert await child.wait() == 7
            assert await child.wait() == 7
        assert child.stderr.lines() == ["last words"]
        assert alive(other)
        await child.kill()
        await until(lambda: not alive(other))  # nobody can wait for the child of a child
        assert await child.read() == b""
        assert child.returncode == 7

    run(scenario())


def test_the_end_of_stderr_after_a_flood_is_available_at_exit(run: Any) -> None:
    async def scenario() -> None:
        for _ in range(5):
            child = await ChildProcess.start(sh("head -c 65536 /dev/zero >&2; echo >&2; echo last words >&2"))
            await child.wait()
            assert child.stderr.lines() == ["last words"]
            await child.stop()

    run(scenario())


def test_signal_is_a_negative_code(run: Any) -> None:
    async def scenario() -> int:
        child = await ChildProcess.start(sh("kill -USR1 $$"))
        try:
            return await child.wait()
        finally:
            await child.stop()

    assert run(scenario()) == -10


def test_a_full_pipe_fails_after_the_deadline_without_blocking_the_loop(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("sleep 60"))
        try:
            begun = time.monotonic()
            writing = asyncio.create_task(child.write(b"x" * 1_000_000, 0.1))
            turns = 0
            while not writing.done():
                await asyncio.sleep(0)
                turns += 1
            with pytest.raises(PipeWriteError, match="does not read"):
                await writing
            assert turns > 1, "the first turn of the loop did not wait for the child"
            assert time.monotonic() - begun < within(5)
            with pytest.raises(PipeWriteError):  # a part of the message is in the pipe
                await child.write(b"y", 5)
        finally:
            await child.kill()

    run(scenario())


def test_a_cancelled_writers_message_arrives_complete_before_others(run: Any) -> None:
    """One cancelled call must not spoil the stream for all the others."""

    async def scenario() -> bytes:
        child = await ChildProcess.start(sh("read go; cat"))
        first = asyncio.create_task(child.write(b"go\n" + b"a" * 200_000 + b"\n", 5))
        await asyncio.sleep(0)
        second = asyncio.create_task(child.write(b"b" * 200_000 + b"\n", 5))
        await asyncio.sleep(0)
        first.cancel()
        reading = asyncio.create_task(everything(child))
        await second
        child.close_stdin()
        printed: bytes = await reading
        await child.stop()
        return printed

    assert run(scenario()) == b"a" * 200_000 + b"\n" + b"b" * 200_000 + b"\n"


def test_write_to_a_child_that_has_gone_fails_at_once(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("exit 0"))
        await child.wait()
        with pytest.raises(PipeWriteError):
            await child.write(b"x", 5)
        await child.stop()
        with pytest.raises(PipeWriteError, match="closed"):
            await child.write(b"x", 5)

    run(scenario())


def test_a_waiting_writer_fails_at_once_if_the_pipe_is_closed(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("read line; exec <&-; sleep 60"))
        async with asyncio.timeout(within(1)):
            with pytest.raises(PipeWriteError, match="Broken pipe"):
                await child.write(b"\n" + b"x" * 200_000, 60)
        await child.kill()

    run(scenario())


def test_a_cancelled_reader_loses_no_data(run: Any) -> None:
    async def scenario() -> None:
        child = await ChildProcess.start(sh("cat"))
        for turns in range(4):
            reading = asyncio.create_task(child.read())
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.wait([reading])
        await child.write(b"all", 1)
        child.close_stdin()
        assert await everything(child) == b"all"
        await child.stop()

    run(scenario())


def test_unread_output_stays_in_the_pipe(run: Any) -> None:
    """Whatever a child writes, our memory stays as it is."""

    async def scenario() -> None:
        child = await ChildProcess.start(sh("head -c 200000000 /dev/zero"), stdin=False)
        tracemalloc.start()
        try:
            await until(lambda: _waiting(child) == 65536)
            total = 0
            while chunk := await child.read():
                total += len(chunk)
            assert total == 200_000_000
            assert tracemalloc.get_traced_memory()[1] < 2_000_000
        finally:
            tracemalloc.stop()
            await child.stop()

    run(scenario())


def _waiting(child: ChildProcess) -> int:
    descriptor = child._stdout._descriptor
    assert descriptor is not None
    answer: int = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0" * 4))[0]
    return answer


def test_a_flood_on_stderr_is_drained_and_logged_at_a_bounded_rate(run: Any) -> None:
    """With line ends, without, and the child is never held up."""
    heard: list[str] = []

    async def scenario() -> None:
        script = "yes error | head -c 3000000 >&2; head -c 3000000 /dev/zero >&2; echo >&2; echo end >&2; echo done"
        child = await ChildProcess.start(sh(script), on_stderr=heard.append)
        async with asyncio.timeout(within(4)):
            assert await everything(child) == b"done\n"
            await child.wait()
        await child.stop()
        assert child.stderr.lines()[-1] == "end"
        assert len(child.stderr.text(10**9)) <= CAPACITY

    run(scenario())
    assert 0 < len(heard) < 1000
    assert heard[0] == "error"
    assert "lines left out" in heard[-1] or heard[-1] == "end"


def test_a_failing_listener_does_not_stop_draining(run: Any) -> None:
    def broken(line: str) -> None:
        raise ValueError(line)

    async def scenario() -> None:
        quiet = await ChildProcess.start(sh("printf unfinished >&2"), on_stderr=broken)
        await quiet.wait()
        await quiet.stop()
        child = await ChildProcess.start(sh("yes | head -c 1000000 >&2; echo done"), on_stderr=broken)
        async with asyncio.timeout(within(2)):
            assert await everything(child) == b"done\n"
        await child.stop()

    run(scenario())


def test_short_children_leave_no_zombies(run: Any) -> None:
    async def one() -> None:
        child = await ChildProcess.start(Command(("/bin/true",), ENV, "/"), stdin=False)
        assert await child.wait() == 0
        await child.kill()

    async def scenario() -> None:
        for _ in range(4):
            await asyncio.gather(*(one() for _ in range(8)))
        assert zombies() == []

    run(scenario())


def test_child_dies_with_a_server_that_is_killed() -> None:
    """Also one that does not read its standard input."""
    server = """
import asyncio, sys
from workspace_server.processes.child_process import ChildProcess, Command
async def main():
    child = await ChildProcess.start(Command(("sleep", "60"), {"PATH": sys.argv[1]}, "/"), stdin=False)
    print(child.pid, flush=True)
    await child.wait()
asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", server, ENV["PATH"]], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert alive(pid)
        process.kill()
    asyncio.run(until(lambda: not alive(pid)))
