"""Relative paths of an agent that works in a folder of the project: its own files first, then the root's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.clangd.definitions import TOOLS as CLANGD_TOOLS
from lm_tools_bridge.code_intelligence.source import LanguageServerSource
from lm_tools_bridge.protocol import headers, names
from support.clients.stateless_requests import body_of, headers_of
from support.processes.workspace_app import Serving, serving
from support.servers.language_servers.in_memory import InMemoryServer, InMemoryServers, kind, no_environment
from support.servers.mcp_sources.tool_source import ScriptedSource, tool
from workspace_server.call_context import CallContext
from workspace_server.sources.agent_folder import read_arguments
from workspace_server.sources.builtin.source import BuiltinSource
from workspace_server.tool import CallOutcome, InvalidArguments, ToolError, ToolResult
from workspace_server.workspace import Workspace

FOLDER = "packages/wéb"
FILES = (
    *("nonce.txt", "root_only.txt", "src/app.py", "src/root.py", "packages/api/main.py"),
    *(f"{FOLDER}/nonce.txt", f"{FOLDER}/src/app.py", f"{FOLDER}/own.py"),
)


@pytest.fixture
def mono(tmp_path: Path) -> Workspace:
    root = tmp_path / "mono"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    return Workspace.of(root)


async def call(
    served: Serving, tool_name: str, arguments: dict[str, Any], folder: str | None = FOLDER
) -> dict[str, Any]:
    body = body_of(names.TOOLS_CALL, {"name": tool_name, "arguments": arguments})
    sent = headers_of(body)
    if folder is not None:
        sent[headers.FOLDER] = headers.encode_value(folder)
    async with served.session.post(f"{served.base}/mcp", data=json.dumps(body), headers=sent) as response:
        result: dict[str, Any] = (await response.json())["result"]
        return result


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


async def test_a_request_with_the_folder_reads_its_own_file_and_says_so(mono: Workspace) -> None:
    async with serving([BuiltinSource(mono)]) as served:
        result = await call(served, "lm_readFile", {"filePath": "nonce.txt"})
        assert result["structuredContent"]["workspacePath"] == f"mono/{FOLDER}/nonce.txt"
        note = f"nonce.txt was read from mono/{FOLDER}; the root has another: mono/nonce.txt"
        assert result["structuredContent"]["note"] == note
        assert text_of(result).splitlines()[1] == f"note: {note}"
        assert text_of(result).endswith(f"---\n{FOLDER}/nonce.txt\n")
        wrapped = {"name": "lm_readFile", "arguments": {"filePath": "nonce.txt"}}
        inner = await call(served, "execute_tool", wrapped)
        assert inner["structuredContent"]["workspacePath"] == f"mono/{FOLDER}/nonce.txt"


async def test_a_request_without_the_folder_reads_from_the_root(mono: Workspace) -> None:
    async with serving([BuiltinSource(mono)]) as served:
        result = await call(served, "lm_readFile", {"filePath": "nonce.txt"}, None)
        assert result["structuredContent"]["workspacePath"] == "mono/nonce.txt"
        assert "note" not in result["structuredContent"]


@pytest.mark.parametrize(
    "folder",
    [
        "",
        ".",
        "..",
        "../x",
        "packages/../..",
        "/etc",
        "nowhere",
        "nonce.txt",
        "packages//wéb",
        "out",
        "a\0b",
        "C:/x",
    ],
)
async def test_a_folder_that_is_none_of_the_project_is_ignored(mono: Workspace, folder: str) -> None:
    outside = mono.root.parent / "outside"
    outside.mkdir()
    (outside / "nonce.txt").write_text("secret")
    (mono.root / "out").symlink_to(outside)
    arguments = {"filePath": "nonce.txt"}
    assert read_arguments(mono, folder, arguments) == (arguments, "")


async def test_a_script_that_a_tool_calls_works_in_the_root(mono: Workspace) -> None:
    async def script(arguments: object, context: CallContext) -> CallOutcome:
        assert context.toolbox is not None
        answer = await context.toolbox.call("lm_readFile", {"filePath": "nonce.txt"})
        return ToolResult("", answer["result"]["structuredContent"]["workspacePath"])

    scripted = ScriptedSource([tool("script")])
    scripted.answers["script"] = script
    async with serving([BuiltinSource(mono), scripted]) as served:
        result = await call(served, "script", {})
        assert result["structuredContent"] == "mono/nonce.txt"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("own.py", f"{FOLDER}/own.py"),
        (".", FOLDER),
        ("./src/app.py", f"{FOLDER}/src/app.py"),
        ("src\\app.py", f"{FOLDER}/src/app.py"),
        ("../api/main.py", "packages/api/main.py"),
        ("src/typo.py", None),
        ("typo.py", f"{FOLDER}/typo.py"),
        ("root_only.txt", None),
        ("src/root.py", None),
        ("packages/api/main.py", None),
        (f"mono/{FOLDER}/own.py", None),
        ("mono/nonce.txt", None),
        ("/etc/passwd", None),
        ("../../../x", None),
        ("file:///x", None),
        ("", None),
        ("a\0", None),
    ],
)
def test_a_path_means_the_own_file_else_what_it_means_at_the_root(
    mono: Workspace, text: str, meant: str | None
) -> None:
    read = read_arguments(mono, FOLDER, {"filePath": text}).arguments["filePath"]
    if meant is None:
        assert read in {text, str(mono.root / FOLDER / text)}
        assert (read == text) == (text != "src/typo.py")
    else:
        assert read == str(mono.root / meant)


def test_a_printed_path_leads_back_although_the_folder_has_one_of_that_name(mono: Workspace) -> None:
    twin = mono.root / FOLDER / "mono" / "nonce.txt"
    twin.parent.mkdir()
    twin.write_text("twin")
    reading = read_arguments(mono, FOLDER, {"filePath": "mono/nonce.txt"})
    assert reading.arguments["filePath"] == "mono/nonce.txt"
    assert (
        reading.note == f"mono/nonce.txt was read from the root; mono/{FOLDER}/mono/nonce.txt is another file"
    )


async def test_a_path_that_is_nowhere_is_an_error_about_the_own_folder(mono: Workspace) -> None:
    async with serving([BuiltinSource(mono)]) as served:
        result = await call(served, "lm_readFile", {"filePath": "src/ap.py"})
        assert result["isError"]
        assert f"did you mean mono/{FOLDER}/src/app.py" in text_of(result)


async def found(served: Serving, name: str, arguments: dict[str, Any]) -> list[str]:
    structured = (await call(served, name, arguments))["structuredContent"]
    paths = structured["files"] if "files" in structured else [one["path"] for one in structured["matches"]]
    return sorted(path.partition("/mono/")[2] for path in paths)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("src/*", [f"{FOLDER}/src/app.py"]),
        ("./src/**", [f"{FOLDER}/src/app.py"]),
        ("src/app.py", [f"{FOLDER}/src/app.py"]),
        ("../api/*", ["packages/api/main.py"]),
        ("packages/api/*", ["packages/api/main.py"]),
        ("{src,packages}/**/*.py", ["packages/api/main.py", f"{FOLDER}/own.py", f"{FOLDER}/src/app.py"]),
        ("app.py", [f"{FOLDER}/src/app.py", "src/app.py"]),
        ("**/app.py", [f"{FOLDER}/src/app.py", "src/app.py"]),
        ("mono/src/*", ["src/app.py", "src/root.py"]),
    ],
)
async def test_a_glob_that_begins_with_a_name_is_read_like_a_path(
    mono: Workspace, pattern: str, expected: list[str]
) -> None:
    async with serving([BuiltinSource(mono)]) as served:
        assert await found(served, "lm_findFiles", {"query": pattern}) == sorted(expected)
        arguments = {"query": "/", "includePattern": pattern}
        assert await found(served, "lm_findTextInFiles", arguments) == sorted(expected)


@pytest.mark.parametrize("name", ["my [app]", "a{b}", "a*b"])
async def test_folders_with_characters_of_globs_are_read_as_names(tmp_path: Path, name: str) -> None:
    root = tmp_path / "mono"
    own = root / "packages" / name / "src"
    own.mkdir(parents=True)
    (own / "a.py").write_text("x")
    (root / "src").mkdir()
    (root / "src" / "b.py").write_text("x")
    source = BuiltinSource(Workspace.of(root))
    context = CallContext(folder=f"packages/{name}")
    result = await source.call_tool("lm_findFiles", {"query": "src/*.py"}, context)
    assert isinstance(result, ToolResult)
    assert result.structured["files"] == [str(own / "a.py")]


@pytest.mark.parametrize("name", ["[slug]/page.ts", "[[...all]]/page.ts", "(shop)/page.ts", "{x,y}/page.ts"])
async def test_a_glob_that_spells_a_path_in_the_folder_finds_it(tmp_path: Path, name: str) -> None:
    own = tmp_path / "mono/packages/web" / name
    own.parent.mkdir(parents=True)
    own.write_text("x")
    source = BuiltinSource(Workspace.of(tmp_path / "mono"))
    context = CallContext(folder="packages/web")
    escaped = re.sub(r"[\[\](){}]", r"\\\g<0>", name)
    for pattern in (name, f"./{name}", f"{name.partition('/')[0]}/*.ts", escaped):
        result = await source.call_tool("lm_findFiles", {"query": pattern}, context)
        assert isinstance(result, ToolResult)
        assert result.structured["files"] == [str(own)], pattern


async def test_a_directory_is_the_own_one_and_the_default_is_the_root(mono: Workspace) -> None:
    async with serving([BuiltinSource(mono)]) as served:
        own = await call(served, "lm_listDirectory", {"filePath": "src"})
        assert f"directory: {mono.root / FOLDER / 'src'}" in text_of(own)
        assert own["structuredContent"]["note"].startswith(f"src was read from mono/{FOLDER}")
        root = await call(served, "lm_listDirectory", {})
        assert f"directory: {mono.root}" in text_of(root)


async def test_language_tools_read_paths_in_the_same_way(mono: Workspace) -> None:
    server = InMemoryServer(kind("ty", ".py"))
    source = LanguageServerSource(mono, InMemoryServers([server]), no_environment)
    await source.list_tools()
    context = CallContext(folder=FOLDER)
    result = await source.call_tool("lm_getDiagnostics", {"filePath": "src/app.py", "waitS": 0}, context)
    assert isinstance(result, ToolResult)
    assert result.structured["note"].startswith(
        f"src/app.py was read from mono/{FOLDER}; the root has another"
    )
    await source.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"filePath": "own.py", "position": {"line": 1, "character": 1}},
        {"scopePath": "own.py"},
        {"method": "x", "params": {"filePath": "own.py"}},
        {"method": "x", "params": {"textDocument": {"filePath": "own.py"}}},
    ],
)
def test_paths_below_other_arguments_are_read_too(mono: Workspace, arguments: dict[str, Any]) -> None:
    read = read_arguments(mono, FOLDER, arguments).arguments
    assert str(mono.root / FOLDER / "own.py") in json.dumps(read, ensure_ascii=False)
    assert any("filePath" in one.input_schema["properties"] for one in CLANGD_TOOLS)


@pytest.mark.parametrize("text", ["x" * 300 + "/y.py", "x" * 5000, "own.py/below", "a\udcffb/c"])
async def test_names_that_no_disk_takes_are_refused_like_at_the_root(mono: Workspace, text: str) -> None:
    source = BuiltinSource(mono)
    for name, arguments in (("lm_readFile", {"filePath": text}), ("lm_findFiles", {"query": text[:900]})):
        outcomes = []
        for folder in ("", FOLDER):
            try:
                result = await source.call_tool(name, arguments, CallContext(folder=folder))
                outcomes.append(getattr(result, "structured", None))
            except (ToolError, InvalidArguments):
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1]
