"""Every module that reads or writes files is named here with whose files they are.

Files of a project can be exchanged by links at any moment, by the project's own programs. Whoever writes one, or
acts upon what it read there, does so through `lm_tools_bridge/machine/project_file.py`.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parent.parent
_PACKAGES: Final = ("lm_tools_bridge", "manager", "workspace_server")

_PROJECT_WRITERS: Final = {
    "lm_tools_bridge/client_setup/editing/file_access.py": "adopt and its undo, the user's client files, team context",
    "workspace_server/config/edit.py": "tools enable, disable, allow, ask, deny, visibility",
    "workspace_server/internal_channel/provider_config.py": "changes of providers.json",
    "workspace_server/sources/scripts/script_confinement.py": "folders of git that a script may not make",
    "lm_tools_bridge/code_intelligence/tools/editing/applying.py": "lm_rename, code actions, formatting",
}
_PROJECT_READERS: Final = {
    **_PROJECT_WRITERS,
    "lm_tools_bridge/agent/key_sources.py": "keys in the .env of a trusted project",
    "lm_tools_bridge/agent/providers/configuration.py": "addresses of models, with the digest that is trusted",
}
"""Modules that act upon a project's file without comparing its bytes with what was trusted."""

_OWN_WRITERS: Final = frozenset(
    [
        "lm_tools_bridge/agent/local_tools/sudo.py",
        "lm_tools_bridge/agent/saved_sessions.py",
        "lm_tools_bridge/agent/settings_file.py",
        "lm_tools_bridge/machine/file_calls.py",
        "lm_tools_bridge/machine/private_files.py",
        "lm_tools_bridge/machine/private_folder.py",
        "lm_tools_bridge/machine/private_files.py",
        "lm_tools_bridge/machine/project_file.py",
        "lm_tools_bridge/machine/unix_sockets.py",
        "lm_tools_bridge/remote_hosts/known_hosts.py",
        "lm_tools_bridge/client_setup/editing/undo_records.py",
        "lm_tools_bridge/code_intelligence/kinds/installation.py",
        "lm_tools_bridge/code_intelligence/kinds/installed_servers.py",
        "lm_tools_bridge/code_intelligence/kinds/package_managers.py",
        "manager/listener/control_listener.py",
        "manager/listener/runner.py",
        "manager/log.py",
        "manager/housekeeping.py",
        "lm_tools_bridge/recorder/recorder.py",
        "manager/startup/lock.py",
        "manager/startup/port.py",
        "manager/state_file.py",
        "manager/state_file.py",
        "manager/stdio_bridge/detached.py",
        "manager/supervision/unused_workspaces.py",
        "manager/supervision/leftovers.py",
        "manager/supervision/process.py",
        "lm_tools_bridge/team/membership.py",
        "lm_tools_bridge/tokens/token.py",
        "workspace_server/calls/request_state.py",
        "workspace_server/tool_search/definitions.py",
        "workspace_server/processes/confinement.py",
        "lm_tools_bridge/code_intelligence/server_process/fence.py",
        "workspace_server/config/load.py",
        "workspace_server/internal_channel/channel.py",
        "workspace_server/secrets/sealed_file.py",
        "workspace_server/sources/mcp/lists/list_cache.py",
        "workspace_server/sources/scripts/bundle.py",
        "workspace_server/sources/scripts/runner.py",
        "workspace_server/fork_server.py",
        "workspace_server/tasks/store.py",
        "workspace_server/trust/store.py",
    ]
)
"""Modules that write our own files: settings, state, sockets, logs, private temporary folders."""

_NAMED_BY_THE_USER: Final = {
    "lm_tools_bridge/recorder/cli/calls.py": "calls export -o FILE",
    "manager/cli/completion.py": "the shell's completion file",
    "lm_tools_bridge/demo/code_tour.py": "the demo's own project",
    "lm_tools_bridge/demo/project_tools.py": "the demo's own project",
    "lm_tools_bridge/demo/sandbox.py": "the demo's own project",
    "manager/cli/service/verb.py": "the user's units of systemd",
    "lm_tools_bridge/uninstall/verb.py": "what this program made",
}
_NO_FILES: Final = {
    "lm_tools_bridge/agent/screen/line_input.py": "/dev/null",
    "lm_tools_bridge/terminal/command_line.py": "/dev/null",
    "manager/cli/verbs.py": "the text of the help",
    "lm_tools_bridge/machine/own_process.py": "/proc",
    "workspace_server/fork_server.py": "/proc",
    "workspace_server/processes/launcher.py": "/proc",
    "lm_tools_bridge/agent/conversation/conversation.py": "replaces messages",
    "lm_tools_bridge/team/registry/reader.py": "replaces entries",
    "workspace_server/catalog/active_sources.py": "replaces sources",
    "workspace_server/catalog/registry.py": "replaces sources",
    "workspace_server/sources/scripts/prelude.py": "runs in the process of a script",
    "workspace_server/sources/scripts/library/lmtb_tool.py": "runs in the process of a script",
}
_THROUGH_FILE_ACCESS: Final = {
    "lm_tools_bridge/team/using.py": "a context of NATS in the user's home folder",
    "lm_tools_bridge/client_setup/adoption/adoption_files.py": "adopt",
    "lm_tools_bridge/client_setup/workbench.py": "client add, update, remove and undo",
}
"""Modules whose writes are calls of `file_access.py`."""

_OS_WRITES: Final = frozenset(
    {"rename", "unlink", "mkdir", "makedirs", "symlink", "link", "rmdir", "remove", "truncate", "replace"}
)
_PATH_WRITES: Final = frozenset(
    {"write_text", "write_bytes", "unlink", "mkdir", "rename", "symlink_to", "hardlink_to", "rmdir"}
)
_MODULE_WRITES: Final = {
    "os": _OS_WRITES,
    "shutil": frozenset({"rmtree", "copy", "copy2", "copyfile", "copytree", "move"}),
    "private_files": frozenset({"write", "create"}),
    "file_access": frozenset({"replace", "delete"}),
    "file_calls": frozenset({"replace", "open_to_append"}),
}


def _modules() -> list[str]:
    files = (file for package in _PACKAGES for file in (_ROOT / package).rglob("*.py"))
    return sorted(file.relative_to(_ROOT).as_posix() for file in files)


def _writes(module: str) -> list[int]:
    """The lines of a module that write, make, rename or remove a file."""
    tree = ast.parse((_ROOT / module).read_text("utf-8"))
    return [call.lineno for call in ast.walk(tree) if isinstance(call, ast.Call) and _is_write(call)]


def _is_write(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute):
        return isinstance(call.func, ast.Name) and call.func.id == "open" and _is_writing_mode(call, 1)
    owner = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
    name = call.func.attr
    if owner == "os" and name == "open":
        return any(flag in ast.dump(call) for flag in ("O_WRONLY", "O_RDWR"))
    if owner in _MODULE_WRITES:
        return name in _MODULE_WRITES[owner]
    if name == "replace":  # of a path: that of a text has two arguments, those of records have names
        return len(call.args) == 1 and not call.keywords and not isinstance(call.args[0], ast.Starred)
    return name in _PATH_WRITES or (name == "open" and _is_writing_mode(call, 0))


def _is_writing_mode(call: ast.Call, place: int) -> bool:
    mode = call.args[place] if len(call.args) > place else None
    text = mode.value if isinstance(mode, ast.Constant) and isinstance(mode.value, str) else ""
    return set(text) <= set("rwxabt+") and bool(set(text) & set("wxa+"))


def test_every_module_that_writes_files_says_whose_they_are() -> None:
    writers = {module for module in _modules() if _writes(module)}
    named = {*_OWN_WRITERS, *_NAMED_BY_THE_USER, *_NO_FILES, *_THROUGH_FILE_ACCESS}
    assert sorted(writers - named) == [], "say whose files it writes; a project's: through project_file"
    assert sorted(named - writers) == [], "writes no file any more"


@pytest.mark.parametrize("module", _PROJECT_WRITERS)
def test_files_of_projects_are_written_through_their_open_folder(module: str) -> None:
    assert _writes(module) == [], f"{module} writes by path"
    assert "project_file.held(" in (_ROOT / module).read_text("utf-8")


@pytest.mark.parametrize("module", _PROJECT_READERS)
def test_files_of_projects_that_are_acted_upon_are_read_through_their_open_folder(module: str) -> None:
    text = (_ROOT / module).read_text("utf-8")
    assert "project_file.read(" in text or "project_file.held(" in text
    assert "read_bytes(" not in text and "read_text(" not in text


def test_nothing_reads_a_file_of_a_project_by_the_private_reader() -> None:
    """`private_files.read` follows links in the folders above, which only our own folders do not have."""
    own = {"lm_tools_bridge/agent/settings_file.py", "lm_tools_bridge/agent/command_line/wizard.py", "lm_tools_bridge/agent/providers/configuration.py", "lm_tools_bridge/machine/project_file.py"}  # fmt: skip
    readers = {module for module in _modules() if "private=False" in (_ROOT / module).read_text("utf-8")} - {
        "lm_tools_bridge/machine/private_files.py"
    }
    assert readers == own, "a file of a project is read through project_file"


@pytest.mark.parametrize("call", ["path.replace(other)", "os.replace(a, b)", "path.open('wb')", "open(f, 'w')",
                                  "private_files.write(path, b'')", "path.write_text('')", "os.open(p, os.O_WRONLY)"])  # fmt: skip
def test_a_new_write_is_noticed(call: str) -> None:
    expression = ast.parse(call, mode="eval").body
    assert isinstance(expression, ast.Call) and _is_write(expression)


@pytest.mark.parametrize(
    "call", ["text.replace('a', 'b')", "replace(record, name=1)", "path.open('rb')", "open(f)"]
)
def test_what_only_reads_is_no_write(call: str) -> None:
    expression = ast.parse(call, mode="eval").body
    assert isinstance(expression, ast.Call) and not _is_write(expression)
