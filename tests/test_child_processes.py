"""Every place that starts a process is named here, with whose program it runs and what proves that this is safe.

A program that a project brings runs only by way of `workspace_server/processes/`, after trust and with a mark.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest

_ROOT: Final = Path(__file__).parent.parent
_PACKAGES: Final = ("lm_tools_bridge", "manager", "workspace_server")
_OF_WORKSPACE_SERVERS: Final = (
    "workspace_server/",
    *(f"lm_tools_bridge/{feature}/" for feature in ("code_intelligence", "editors", "skills")),
)
_STARTS: Final = {
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "multiprocessing": {"Process", "Pool", "get_context"},
    "os": {
        "execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe", "fork", "forkpty", "popen",
        "posix_spawn", "posix_spawnp", "spawnl", "spawnle", "spawnlp", "spawnv", "spawnve", "spawnvp", "startfile",
        "system",
    },
    "pty": {"fork", "spawn"},
    "subprocess": {"Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput", "run"},
    "webbrowser": {"get", "open", "open_new", "open_new_tab"},
}  # fmt: skip
_SHELLS: Final = frozenset({"create_subprocess_shell", "getoutput", "getstatusoutput", "popen", "system"})

Program = Literal["ours", "the system's", "a configured one"]


class Start(NamedTuple):
    """Whose program a module starts, and the attack that is tried against it (`attacks.toml`)."""

    program: Program
    attack: str


_OURS: Final = Start("ours", "Opening a project runs something of it")
_SYSTEM: Final = Start("the system's", "Shell characters in arguments")
_HOST: Final = Start(
    "the system's", "An address, or an entry of the file of hosts, holds an option of ssh or docker"
)
_OPENING: Final = Start("a configured one", "Opening a project runs something of it")

STARTS: Final = {
    "lm_tools_bridge/agent/command_line/wizard.py": _OURS,
    "lm_tools_bridge/agent/local_tools/command_process.py": Start(
        "a configured one", "A command discards work, writes outside"
    ),
    "lm_tools_bridge/agent/manager_client/elicitation.py": Start("the system's", "Links in results"),
    "lm_tools_bridge/agent/manager_client/session.py": _OURS,
    "lm_tools_bridge/agent/slash_commands/session.py": _OURS,
    "lm_tools_bridge/published_servers/package_index.py": Start(
        "the system's", "A published server, its registry or its index names an option"
    ),
    "lm_tools_bridge/page/ui_verb.py": Start("the system's", "A ticket of the page is guessed"),
    "lm_tools_bridge/agent/replacing.py": _OURS,
    "manager/cli/completion.py": _OURS,
    "lm_tools_bridge/demo/sandbox.py": _OURS,
    "lm_tools_bridge/remote_hosts/cli/hosts.py": _HOST,
    "lm_tools_bridge/remote_hosts/cli/installing.py": Start(
        "the system's", "Wheels are changed on their way to a host"
    ),
    "lm_tools_bridge/remote_hosts/cli/verb.py": _HOST,
    "manager/cli/service/service_manager.py": _SYSTEM,
    "lm_tools_bridge/uninstall/verb.py": _OURS,
    "manager/cli/workspace_command.py": _OURS,
    "manager/admin/control/project_command.py": Start("ours", "Options in arguments and in names of files"),
    "lm_tools_bridge/page/sign_in.py": _OURS,
    "manager/startup/replacement.py": _OURS,
    "manager/stdio_bridge/detached.py": _OURS,
    "manager/stdio_bridge/manager_start.py": _OURS,
    "manager/supervision/fork_server.py": _OURS,
    "manager/supervision/process.py": _OURS,
    "lm_tools_bridge/remote_hosts/tunnel/near_end.py": _HOST,
    "workspace_server/command/sign_in.py": Start("the system's", "A login at a remote server is misdirected"),
    "workspace_server/processes/confinement.py": Start(
        "ours", "A fenced script writes, signals or gains rights"
    ),
    "workspace_server/processes/launcher.py": _OPENING,
    "workspace_server/processes/spawn.py": _OPENING,
    "workspace_server/sources/builtin/files/read_ahead.py": _OURS,
    "workspace_server/sources/builtin/search/process.py": Start(
        "the system's", "Options in arguments and in names of files"
    ),
    "lm_tools_bridge/code_intelligence/languages_command.py": Start(
        "a configured one", "Settings, plug-ins, virtual environments, toolchain files or wrapper scripts"
    ),
    "lm_tools_bridge/code_intelligence/kinds/package_managers.py": Start(
        "the system's", "A package of a language server, or a file of the project, decides"
    ),
    "workspace_server/fork_server.py": _OURS,
}

COMMANDS: Final = {
    "workspace_server/processes/login_shell.py": Start(
        "the system's", "Variables that make programs load code"
    ),
    "lm_tools_bridge/code_intelligence/session/pool.py": Start(
        "a configured one", "Settings, plug-ins, virtual environments, toolchain files or wrapper scripts"
    ),
    "lm_tools_bridge/code_intelligence/server_process/fence.py": Start(
        "a configured one", "A language server that runs without trust is led all the same"
    ),
    "workspace_server/sources/mcp/stdio/source.py": _OPENING,
    "workspace_server/sources/scripts/runner.py": Start(
        "a configured one", "A fenced script writes, signals or gains rights outside"
    ),
}
"""Modules that make a `Command`, which `workspace_server/processes/spawn.py` starts."""


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for package in _PACKAGES:
        for file in sorted((_ROOT / package).rglob("*.py")):
            yield file.relative_to(_ROOT).as_posix(), ast.parse(file.read_text("utf-8"))


def _calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    """Each call, with the last two names of what is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func
            owner = (
                called.value.id
                if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name)
                else ""
            )
            name = (
                called.attr
                if isinstance(called, ast.Attribute)
                else called.id
                if isinstance(called, ast.Name)
                else ""
            )
            yield f"{owner}.{name}", node


def _references(tree: ast.AST) -> set[str]:
    """What starts a process and is named in a module, called or handed on, whatever it was imported as."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in _STARTS.get(node.value.id, ()):
                found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module in _STARTS:
            found |= {alias.name for alias in node.names if alias.name in _STARTS[node.module]}
    return found - {"Popen"} | ({"Popen"} if _makes_popen(tree) else set())


def _makes_popen(tree: ast.AST) -> bool:
    """Whether a process is started, not only named as a type."""
    return any(name in ("subprocess.Popen", ".Popen") for name, _ in _calls(tree))


def _is_option(element: ast.expr) -> bool:
    return isinstance(element, ast.Constant) and str(element.value).startswith("-")


def _attacks() -> list[str]:
    groups = tomllib.loads((_ROOT / "scripts" / "reliability" / "attacks.toml").read_text("utf-8"))["group"]
    return [row["what"] for group in groups for row in group["row"] if row.get("tests")]


def test_every_module_that_starts_a_process_has_a_row() -> None:
    assert {name for name, tree in _modules() if _references(tree)} == STARTS.keys()


def test_every_module_that_makes_a_command_has_a_row() -> None:
    made = {
        name
        for name, tree in _modules()
        if name.startswith(_OF_WORKSPACE_SERVERS) and "/command/" not in name
        for called, _ in _calls(tree)
        if called == ".Command"
    }
    assert made == COMMANDS.keys()


@pytest.mark.parametrize("module", sorted(STARTS | COMMANDS))
def test_every_row_is_tried_as_an_attack(module: str) -> None:
    attack = (STARTS | COMMANDS)[module].attack
    assert [what for what in _attacks() if what.startswith(attack)]


def test_no_process_is_started_by_way_of_a_shell_that_reads_a_text() -> None:
    """The agent's commands are an exception that a person sees: there the shell is named as the program."""
    through_shells = {
        name
        for name, tree in _modules()
        for _, call in _calls(tree)
        if any(keyword.arg == "shell" for keyword in call.keywords) or _references(call) & _SHELLS
    }
    assert not through_shells


def test_our_own_python_is_started_without_the_folder_it_is_in() -> None:
    """Without `-I`, a module of the project's folder would be imported instead of ours."""
    wrong = {
        f"{name}:{node.lineno}"
        for name, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, (ast.List, ast.Tuple)) and any(map(_is_option, node.elts))
        for first, second in pairwise(node.elts)
        if ast.unparse(first) == "sys.executable" and not ast.unparse(second).startswith(("'-I'", "*('-I'"))
    }
    assert not wrong
