"""Every place that reads files is named here: through the gate, or with why no answer shows what it reads."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parent.parent.parent
_PARTS: Final = (
    *(
        "workspace_server/sources",
        "lm_tools_bridge/code_intelligence",
        "lm_tools_bridge/skills",
        "lm_tools_bridge/editors",
        "workspace_server/files",
        "workspace_server/calls",
    ),
    *("workspace_server/methods", "workspace_server/catalog", "workspace_server/tool_search"),
)
_LANGUAGES: Final = "lm_tools_bridge/code_intelligence/"
_BUILTIN: Final = "workspace_server/sources/builtin/"
_SEARCH: Final = f"{_BUILTIN}search/"
_THROUGH_THE_GATE: Final = frozenset(
    [
        "workspace_server/sources/builtin/tools/read_file.py",
        f"{_LANGUAGES}tools/editing/file_content.py",
        f"{_LANGUAGES}tools/texts.py",
        "lm_tools_bridge/skills/reading.py",
    ]
)
"""Modules whose text is in answers."""
_THE_GATE: Final = "workspace_server/files/file_gate.py"
_SHOWS_NOTHING: Final = {
    f"{_LANGUAGES}tools/texts.py": "what stands behind links is compared with what servers say, never shown",
    f"{_LANGUAGES}server_process/fence.py": "folders, in which it makes one",
    f"{_LANGUAGES}python_projects/setup.py": "whether mypy names an interpreter",
    f"{_LANGUAGES}python_projects/tool_choices.py": "which files the tools of a project check",
    f"{_LANGUAGES}tree/disk_text.py": "for servers; its lines say where they are from, for `Texts.showable_lines`",
    f"{_LANGUAGES}tree/tree_scan.py": "digests",
    f"{_LANGUAGES}sync/project_definition.py": "whether it is valid JSON",
    f"{_LANGUAGES}kinds/project_languages.py": "which tools are configured",
    f"{_LANGUAGES}kinds/installed_servers.py": "our own records",
    f"{_LANGUAGES}kinds/package_managers.py": "lock files of npm in a folder of ours",
    f"{_LANGUAGES}kinds/programs.py": "versions",
    f"{_LANGUAGES}kinds/typescript_version.py": "versions",
    f"{_LANGUAGES}python_projects/environments.py": "folders of environments",
    f"{_LANGUAGES}python_projects/libraries.py": "names of imported packages",
    f"{_LANGUAGES}sync/node_packages.py": "names of packages",
    f"{_LANGUAGES}tools/known_files.py": "which files have a default export; its lines come from the search",
    f"{_LANGUAGES}tools/word_check/tracked_files.py": "paths in git's index",
    f"{_LANGUAGES}outline/grammars.py": "queries of installed packages",
    f"{_LANGUAGES}outline/language_server.py": "the process of a language server, whose words are checked",
    f"{_LANGUAGES}outline/project_symbols.py": "the process of a language server, whose words are checked",
    f"{_SEARCH}line_matcher.py": "a process as ripgrep is one; `engine.py` asks the gate for its lines",
    f"{_LANGUAGES}tools/editing/applying.py": "whether a file is still as it was",
    "workspace_server/calls/request_state.py": "our own key",
    "workspace_server/tool_search/definitions.py": "our own file",
    f"{_BUILTIN}files/editor_settings.py": "settings of searches",
    f"{_BUILTIN}files/ignore.py": "ignore files",
    "workspace_server/files/folder_events.py": "/proc",
    "workspace_server/sources/mcp/lists/list_cache.py": "our own files",
    "workspace_server/sources/scripts/bundle.py": "what is trusted and run, never shown",
    "workspace_server/sources/scripts/prelude.py": "runs in the process of a script",
    "workspace_server/sources/scripts/runner.py": "what a script wrote as its result",
    "workspace_server/sources/scripts/script_confinement.py": "where git keeps what it runs",
    "workspace_server/sources/scripts/library/lmtb_tool.py": "runs in the process of a script",
}
_LINES: Final = {
    f"{_LANGUAGES}tools/symbols/places.py": "from `Texts`",
    f"{_LANGUAGES}tools/symbols/symbols.py": "of `place_of`, or after `Texts.showable_lines`",
}
"""Modules that make places with lines to show."""
_READS: Final = frozenset({"read_text", "read_bytes"})
_MODULE_READS: Final = {
    "os": frozenset({"open"}),
    "io": frozenset({"open", "open_code"}),
    "codecs": frozenset({"open"}),
    "linecache": frozenset({"getline", "getlines"}),
    "mmap": frozenset({"mmap"}),
    "project_file": frozenset({"read", "held"}),
    "private_files": frozenset({"read"}),
    "regular_file": frozenset({"open_file", "read_bytes", "read_text", "read_toml", "read_json"}),
}


def _is_read(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id == "open"
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    if owner in _MODULE_READS:
        is_read = call.func.attr in _MODULE_READS[owner]
        return is_read and not any(flag in ast.dump(call) for flag in ("O_WRONLY", "O_RDWR"))
    if call.func.attr == "open":  # of a path: that of a server or a gate has other arguments
        mode = call.args[0] if call.args else None
        return isinstance(mode, ast.Constant) and "r" in str(mode.value)
    return call.func.attr in _READS


def _calls(module: str) -> list[ast.Call]:
    tree = ast.parse((_ROOT / module).read_text("utf-8"))
    return [call for call in ast.walk(tree) if isinstance(call, ast.Call)]


def _modules() -> list[str]:
    files = (file for part in _PARTS for file in (_ROOT / part).rglob("*.py"))
    return sorted(file.relative_to(_ROOT).as_posix() for file in files)


def _readers() -> set[str]:
    return {module for module in _modules() if any(map(_is_read, _calls(module)))} - {_THE_GATE}


def test_every_reader_goes_through_the_gate_or_says_why_not() -> None:
    unnamed = _readers() - _SHOWS_NOTHING.keys()
    assert sorted(unnamed) == [], "read by `FileGate.open` what an answer shows, or say why none does"
    assert sorted(_SHOWS_NOTHING.keys() - _readers()) == [], "reads no file any more"


@pytest.mark.parametrize("module", sorted(_THROUGH_THE_GATE))
def test_text_of_answers_is_opened_by_the_gate(module: str) -> None:
    opens = [
        call for call in _calls(module) if isinstance(call.func, ast.Attribute) and call.func.attr == "open"
    ]
    assert opens, f"{module} opens nothing"
    if module not in _SHOWS_NOTHING:
        assert not any(map(_is_read, opens))


def test_no_other_module_opens_by_the_gate() -> None:
    found = {module for module in _modules() if "FileGate(" in (_ROOT / module).read_text("utf-8")} - {
        _THE_GATE,
        f"{_LANGUAGES}library_folders.py",
    }
    assert found <= _THROUGH_THE_GATE, "name the module here"


def test_places_with_lines_are_made_where_the_lines_are_checked() -> None:
    makers = {
        module
        for module in _modules()
        if module.startswith(f"{_LANGUAGES}tools/")
        for call in _calls(module)
        if isinstance(call.func, ast.Name) and call.func.id in {"Place", "Diagnostic"}
    }
    assert makers == {*_LINES, f"{_LANGUAGES}tools/diagnostic_items.py"}


@pytest.mark.parametrize(
    "call",
    ["open(path)", "path.open('rb')", "os.open(path, os.O_RDONLY)", "path.read_text('utf-8')", "path.read_bytes()",
     "linecache.getline(path, 1)", "project_file.read(path, 9)", "regular_file.read_json(path)"],
)  # fmt: skip
def test_a_new_read_is_noticed(call: str) -> None:
    expression = ast.parse(call, mode="eval").body
    assert isinstance(expression, ast.Call) and _is_read(expression)


@pytest.mark.parametrize("call", ["server.open(path)", "gate.open(path)", "os.open(path, os.O_WRONLY)"])
def test_what_reads_no_file_of_its_own_is_no_read(call: str) -> None:
    expression = ast.parse(call, mode="eval").body
    assert isinstance(expression, ast.Call) and not _is_read(expression)
