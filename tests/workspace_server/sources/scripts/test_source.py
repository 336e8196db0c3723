"""Script tools that really run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lm_tools_bridge.protocol.errors import Reason, Refusal
from support.processes.child_processes import alive, until
from support.processes.timeouts import within
from support.projects.script_tools import Judge, Scripts, script_source
from workspace_server.processes import confinement
from workspace_server.results import encode_result
from workspace_server.sources.scripts.outcome import MAX_STDOUT, META_EXIT_CODE, META_TRUNCATED
from workspace_server.sources.scripts.script_confinement import script_variables
from workspace_server.sources.scripts.slots import Slots
from workspace_server.tool import ToolError, ToolResult

AWKWARD = {"a": 1, "s": "x\n}é", "print": "shadow", "f": 1.5}
SEE = """
import json, os, stat, sys
import helper, shared, lmtb_tool
given = sys.stdin.buffer.read()
named = open(os.environ["LMTB_TOOL_ARGS_FILE"], "rb").read()
lmtb_tool.return_object({
    "stdin": given.decode(), "same": given == named,
    "mode": oct(stat.S_IMODE(os.stat(os.environ["LMTB_TOOL_ARGS_FILE"]).st_mode)),
    "folder mode": oct(stat.S_IMODE(os.stat(os.path.dirname(os.environ["LMTB_TOOL_ARGS_FILE"])).st_mode)),
    "argv": [os.path.basename(word) for word in sys.argv], "cmdline": open("/proc/self/cmdline").read(),
    "env": dict(os.environ), "cwd": os.getcwd(), "path": sys.path, "name": __name__, "isolated": sys.flags.isolated,
    "fds": sorted(os.listdir("/proc/self/fd"))[:4], "globals": "a" in globals(), "where": [helper.__file__, shared.__file__],
    "file": __file__, "print": print is __builtins__.print,
})
"""


@pytest.fixture
async def scripts(tmp_path: Path) -> AsyncIterator[Scripts]:
    async with script_source(tmp_path) as made:
        yield made


async def test_a_python_script_is_isolated_and_gets_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_SECRET", "s3cret")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    library = tmp_path / "library"
    library.mkdir()
    (library / "shared.py").write_text("")
    async with script_source(tmp_path, libraries=[library]) as scripts:
        (scripts.root / "sub").mkdir()
        (scripts.root / "sub" / "json.py").write_text("raise SystemExit('workspace code ran')")
        toml = 'cwd = "sub"\n[env]\nOWN = "1"\n[parameters.d]\ntype = "int"\ndefault = 7\n'
        folder = scripts.write("see", SEE, toml)
        (folder / "helper.py").write_text("")
        outcome = await scripts.result("see", **AWKWARD)
    seen = outcome.structured
    assert json.loads(seen["stdin"]) == AWKWARD | {"d": 7}
    assert seen["same"]
    assert (seen["mode"], seen["folder mode"]) == ("0o600", "0o700")
    assert seen["argv"] == ["script.py"]
    assert "shadow" not in seen["cmdline"]
    assert (seen["name"], seen["isolated"], seen["globals"], seen["print"]) == ("__main__", 1, False, True)
    assert seen["cwd"] == str(scripts.root / "sub")
    assert not any(entry.startswith(str(scripts.root)) for entry in [*seen["path"], seen["file"]])
    assert seen["where"][1] == str(library / "shared.py")
    assert seen["fds"][:3] == ["0", "1", "2"]
    env = seen["env"]
    assert (env["OWN"], env["LMTB_TOOL_NAME"], env["LMTB_WORKSPACE"]) == ("1", "see", str(scripts.root))
    allowed = {"HOME", "LOGNAME", "USER", "PATH", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "OWN"}
    allowed |= script_variables(Path()).keys()
    assert {name for name in env if name not in allowed and not name.startswith(("LC_", "LMTB_"))} == set()
    assert not Path(env["LMTB_TOOL_ARGS_FILE"]).parent.exists()


async def test_other_programs_are_started_directly(scripts: Scripts) -> None:
    """By their `#!` line, executable or not, and never through a shell."""
    scripts.write("awk", '#!/usr/bin/awk -f\nBEGIN { print "awk ran" }\n', file="a run; touch x")
    scripts.write("argument", "#!/bin/sh -e  \nfalse\necho not reached\n", file="run")
    assert await scripts.text("awk") == "awk ran"
    assert await scripts.text("argument") == "Error: exit code 1"
    true = scripts.write("native", Path("/bin/true").read_bytes(), file="true")
    (true / "true").chmod(0o755)
    assert await scripts.text("native") == ""


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("echo 1\n", "does not begin with #!"),
        ("#!/bin/sh\r\necho 1\r\n", "CR LF"),
        ("#!bin/sh\n", "absolute"),
        ("#!\n", "absolute"),
        (b"\x7fELF\0\0", "chmod +x"),
    ],
)
async def test_a_program_that_cannot_be_started_is_left_out_with_the_reason(
    scripts: Scripts, content: str | bytes, word: str
) -> None:
    scripts.write("t", content, file="run.sh")
    assert await scripts.source.list_tools() == ()
    assert word in scripts.source.issues()[0].message


async def test_a_missing_interpreter_is_named(scripts: Scripts) -> None:
    scripts.write("t", "#!/no/such/thing secret-argument\n", file="run")
    with pytest.raises(ToolError, match='/no/such/thing": No such file') as failed:
        await scripts.call("t")
    assert "secret" not in failed.value.message


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ('import os\n\nraise ValueError("x")\n', "Error: ValueError: x (script.py, line 3)"),
        ("class Own(Exception): pass\nraise Own\n", "Error: Own (script.py, line 2)"),
        ("x = 1\nif:\n", "Error: SyntaxError: invalid syntax (script.py, line 2)"),
        ("import helper\nhelper.fail()\n", "Error: KeyError: 'k' (helper.py, line 2)"),
        ("import json\njson.loads('x')\n", "Error: JSONDecodeError: Expecting value: line 1 column 1 (char 0) (script.py, line 2)"),
        ("raise SystemExit('said')\n", "Error: exit code 1\nsaid"),
        ("import sys\nprint('no', file=sys.stderr)\nsys.exit(3)\n", "Error: exit code 3\nno"),
        ("import os\nos.kill(os.getpid(), 9)\n", "Error: ended by SIGKILL"),
        # a value set before an exception does not hide it
        ("import lmtb_tool\ntry:\n    lmtb_tool.return_string('early')\nfinally:\n    raise ValueError('late')\n", "Error: ValueError: late (script.py, line 5)"),
    ],
)  # fmt: skip
async def test_a_failure_shows_error_file_and_line(scripts: Scripts, script: str, text: str) -> None:
    folder = scripts.write("t", script)
    (folder / "helper.py").write_text("def fail():\n    {}['k']\n")
    result = await scripts.result("t")
    assert (result.is_error, result.text) == (True, text)
    assert "Traceback" not in result.text
    assert META_EXIT_CODE in result.meta


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("import lmtb_tool\nlmtb_tool.return_string('a')\nprint('not reached')\n", "a"),
        ("import lmtb_tool\ntry:\n    lmtb_tool.return_string('a')\nexcept:\n    lmtb_tool.return_error('b')\n", "a"),
        ("import lmtb_tool, threading\nthreading.Thread(target=lmtb_tool.return_string, args='a').start()\nthreading.Event().wait()\n", "a"),
        ("import lmtb_tool\nlmtb_tool.return_object([56.0])\n", "[56.0]"),
        ("import lmtb_tool\nlmtb_tool.return_toon({'a': [{'b': 1}, {'b': 2}]})\n", "a[2]{b}:\n  1\n  2"),
        ("import scriptling.mcp.tool as t\nt.return_string(t.get('n', 'none'))\n", "none"),
        ("import sys\nprint('out'); print('err', file=sys.stderr)\n", "out"),
        ("if __name__ == '__main__':\n    print('main')\n", "main"),
        ("exit()\n", ""),
    ],
)  # fmt: skip
async def test_results(scripts: Scripts, script: str, text: str) -> None:
    scripts.write("t", script)
    result = await scripts.result("t")
    assert (result.is_error, result.text) == (False, text)


async def test_output_is_bounded_and_always_valid(scripts: Scripts) -> None:
    scripts.write(
        "flood", "#!/bin/sh\nhead -c 20000000 /dev/zero >&2 &\nyes x | head -c 20000000\nwait\n", file="run"
    )
    scripts.write("dirty", "#!/bin/sh\nprintf 'a\\033[1mb\\000c\\377\\n'\n", file="run")
    flood, dirty = await asyncio.gather(scripts.result("flood"), scripts.result("dirty"))
    assert flood.text.endswith(f"\n[truncated: {20_000_000 - MAX_STDOUT} bytes dropped]")
    assert len(flood.text) < MAX_STDOUT + 100
    assert flood.meta == {META_TRUNCATED: True}
    assert encode_result(dirty)["content"][0]["text"] == "abc\ufffd"


async def test_a_cancelled_script_ends_with_all_its_processes(scripts: Scripts) -> None:
    """It ignores TERM, and a grandchild has left its group."""
    pids = scripts.root / "pids"
    script = f"""#!/bin/sh
trap '' TERM
setsid sh -c 'echo $$ >> "{pids}"; exec sleep 60' &
echo $$ >> "{pids}"
while :; do sleep 0.05; done
"""
    scripts.write("stubborn", script, file="run")
    call = asyncio.create_task(scripts.call("stubborn"))
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await call
    assert time.monotonic() - started < within(1)
    assert [pid for pid in map(int, pids.read_text().split()) if alive(pid)] == []
    assert scripts.source.status()["running"] == 0


async def test_background_processes_end_with_their_script(scripts: Scripts) -> None:
    scripts.write("daemon", "#!/bin/sh\nsleep 60 &\necho $!\n", file="run")
    pid = int((await scripts.result("daemon")).text)
    await until(lambda: not alive(pid))  # nobody can wait for the child of a child


async def test_closing_ends_running_scripts(tmp_path: Path) -> None:
    async with script_source(tmp_path) as scripts:
        scripts.write("slow", "#!/bin/sh\necho $$ > pid\nexec sleep 60\n", file="run")
        call = asyncio.create_task(scripts.call("slow"))
        pid = scripts.root / "pid"
        await until(lambda: pid.exists() and pid.read_text().strip())
        await scripts.source.close()
        outcome = await call
        assert isinstance(outcome, Refusal)
        assert outcome.reason is Reason.SOURCE_UNAVAILABLE
        assert not alive(int(pid.read_text()))


async def test_more_calls_than_may_run_wait_or_are_refused(tmp_path: Path) -> None:
    async with script_source(tmp_path, slots=Slots(2, 0.3)) as scripts:
        scripts.write("wait", "#!/bin/sh\nwhile [ ! -e go ]; do sleep 0.02; done\necho done\n", file="run")
        calls = [asyncio.create_task(scripts.call("wait")) for _ in range(4)]
        done, _ = await asyncio.wait(calls, timeout=within(2), return_when=asyncio.FIRST_COMPLETED)
        refused = [await call for call in done]
        assert all(isinstance(one, Refusal) and one.reason is Reason.OVERLOADED for one in refused)
        (scripts.root / "go").touch()
        outcomes = await asyncio.gather(*calls)
        texts = [one.text for one in outcomes if isinstance(one, ToolResult)]
        assert texts == ["done", "done"]


# Trust ---------------------------------------------------------------------------------------------------
async def test_nothing_runs_before_it_is_trusted(tmp_path: Path) -> None:
    judge = Judge()
    async with script_source(tmp_path, trust=judge) as scripts:
        scripts.write("t", "open('canary', 'w')\n")
        assert await scripts.source.list_tools() == ()
        assert scripts.source.withheld() == {"t": str(scripts.root)}
        outcome = await scripts.call("t")
        assert isinstance(outcome, Refusal)
        assert (outcome.reason, outcome.delivered) == (Reason.WORKSPACE_PENDING_TRUST, "no")
        assert not (scripts.root / "canary").exists()
        judge.trusted = {item.key: item.digest() for item in await scripts.source.items()}
        assert [tool.name for tool in await scripts.source.list_tools()] == ["t"]
        assert scripts.source.withheld() == {}
        await scripts.result("t")
        assert (scripts.root / "canary").exists()


async def test_a_swap_between_check_and_start_never_runs(tmp_path: Path) -> None:
    """With real processes; a thousand flips without them are in `test_bundle.py`."""
    judge = Judge()
    async with script_source(tmp_path, trust=judge) as scripts:
        good, evil = b"#!/bin/sh\necho good\n", b"#!/bin/sh\necho evil >> ran\n"
        file = scripts.write("t", good, file="run") / "run"
        judge.trusted = {item.key: item.digest() for item in await scripts.source.items()}
        ran = refused = 0

        async def flip() -> None:
            while True:
                file.write_bytes(evil)
                await asyncio.sleep(0.003)
                file.write_bytes(good)
                await asyncio.sleep(0.003)

        flipping = asyncio.create_task(flip())
        try:
            while ran < 10 or refused < 10:
                try:
                    outcome = await scripts.call("t")
                except ToolError:  # it changed between the check and the start
                    refused += 1
                    continue
                if isinstance(outcome, ToolResult):
                    assert outcome.text == "good"
                    ran += 1
                else:
                    refused += 1
        finally:
            flipping.cancel()
            await asyncio.gather(flipping, return_exceptions=True)
        assert not (scripts.root / "ran").exists()


async def test_libraries_of_the_workspace_are_run_as_they_were_trusted(tmp_path: Path) -> None:
    library = tmp_path / "project" / "lib"
    judge = Judge()
    async with script_source(tmp_path, trust=judge, own_libraries=[library]) as scripts:
        library.mkdir()
        (library / "helper.py").write_text("VALUE = 'trusted'\n")
        scripts.write("t", "import helper\nprint(helper.VALUE, helper.__file__)\n")
        judge.trusted = {item.key: item.digest() for item in await scripts.source.items()}
        text = await scripts.text("t")
        assert text.startswith("trusted ")
        assert str(scripts.root) not in text
        (library / "helper.py").write_text("VALUE = 'changed'\n")
        assert isinstance(await scripts.call("t"), Refusal)


async def test_a_call_is_refused_if_the_definition_has_changed(tmp_path: Path) -> None:
    async with script_source(tmp_path, trust=None) as scripts:
        scripts.write("t", "print(1)\n")
        await scripts.source.list_tools()
        scripts.write("t", "print(2)\n")
        assert await scripts.text("t") == "2"
        scripts.write("t", "print(3)\n", '[parameters.p]\ntype = "string"\nrequired = true\n')
        with pytest.raises(ToolError, match="changed just now"):
            await scripts.call("t")
        (scripts.tools / "t" / "tool.toml").unlink()
        outcome = await scripts.call("t")
        assert isinstance(outcome, Refusal)
        assert outcome.reason is Reason.TOOL_NOT_FOUND


@pytest.mark.skipif(
    not any(layer.startswith("landlock") for layer in confinement.available_layers()), reason="needs Landlock"
)
async def test_workspace_scripts_can_write_only_to_allowed_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Path(os.environ["HOME"])
    for name in (".cache", ".ssh"):
        (home / name).mkdir()
    outside = Path("/var/lib") if os.access("/var/lib", os.W_OK) else home
    monkeypatch.setattr(
        "workspace_server.sources.scripts.script_confinement._SHARED", ()
    )  # home and project are in there
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    script = f"""
import os, tempfile
done = []
for name in ("inside", os.environ["XDG_CACHE_HOME"] + "/x", {str(tmp_path / "temporary" / "x")!r}, {str(home / ".ssh" / "x")!r},
             {str(home / ".cache" / "x")!r}, {str(home / ".profile")!r}, {str(outside / "lmtb-test")!r}, __file__ + "x"):
    try:
        open(name, "w").close()
        done.append(True)
    except PermissionError:
        done.append(False)
print(done, os.path.exists({str(home)!r}))
"""
    async with script_source(tmp_path) as scripts:
        scripts.write("t", script, f'[env]\nTMPDIR = "{home}/.ssh"\nHOME = "{home}/.ssh"\n')  # widens nothing
        assert await scripts.text("t") == f"{[True] * 3 + [False] * 5} True"
        await until(lambda: scripts.source.status()["protection"])
        assert "rlimits" in scripts.source.status()["protection"]


async def test_a_long_private_folder_path_works(tmp_path: Path) -> None:
    """The path of a socket must be short."""
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    async with script_source(deep) as scripts:
        scripts.write("t", "import os\nprint(os.environ['LMTB_TOOL_ARGS_FILE'])\n")
        file = Path(await scripts.text("t"))
    assert len(str(file.with_name("tools.sock"))) < 100
    assert not file.parent.exists()


def test_python_scripts_use_our_interpreter() -> None:
    from workspace_server.sources.scripts.runner import python

    assert python(Path("s.py"), Path("f"), [])[:2] == (sys.executable, "-I")
