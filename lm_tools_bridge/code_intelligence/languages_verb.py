"""The verb languages: lists the language servers of a project, and what the missing ones need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import click

from lm_tools_bridge.code_intelligence import install_verbs
from lm_tools_bridge.protocol.internal.source_states import DOWN, label_of
from lm_tools_bridge.terminal.command_line import Failure, SubVerbs, examples, json_option, print_json, say
from lm_tools_bridge.terminal.views import Column, Kind, Note, Table
from lm_tools_bridge.text.quantities import duration
from manager.cli.output.manager_access import user_paths
from manager.cli.output.workspace_options import cwd_option
from manager.cli.workspace_command import answer_of, root_of
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.status_reading import objects

LIMIT_S: Final = 30.0
"""The answer runs each program once for its version, each for some seconds at most."""
OFTEN: Final = 3
"""Ends of a process after which it is no longer called installed, though the next one runs now."""
_MIB: Final = 1024 * 1024  # bytes
_COLUMNS: Final = (
    Column("LANGUAGE", Kind.TEXT),
    Column("SERVER", Kind.NAME),
    Column("STATE", Kind.STATE),
    Column("FOR", Kind.TEXT, rank=2),
    Column("VERSION", Kind.NAME, rank=1),
    Column("MEMORY", Kind.SIZE, rank=3),
    Column("PROGRAM", Kind.DETAIL),
)


@click.group(
    cls=SubVerbs,
    invoke_without_command=True,
    epilog=examples("lmtb languages", "lmtb languages install python"),
)
@cwd_option
@json_option
@click.pass_context
def languages(ctx: click.Context, as_json: bool) -> None:
    """List the language servers for a project's languages, and what to install or trust for the others.

    Starts none of them. MEMORY is that of servers that run.
    """
    if ctx.invoked_subcommand is not None:
        return
    root = root_of(ctx.obj)
    answer = answer_of("languages", root, limit_s=LIMIT_S)
    if answer is None:
        text = f"the languages of {root} cannot be told"
        raise Failure(text, "look closer with: lmtb doctor", reason="no_answer")
    running = {str(server.get("name")): server for server in _running(root)}
    servers = [
        {**server, "running": running.get(str(server.get("server")))} for server in objects(answer, "servers")
    ]
    if as_json:
        more = {name: answer[name] for name in ("pythonEnvironment",) if name in answer}
        print_json({"root": root, "enabled": answer.get("enabled"), "servers": servers, **more})
        return
    if not answer.get("enabled"):
        say(Note("Language servers are switched off in workspace.toml."))
    elif not servers:
        say("No file of this project is in a language that a known language server reads.")
    else:
        say(Table(_COLUMNS, [row_of(server) for server in servers]))
        for line in lines_below(answer, servers):
            say(line)


for _verb in (install_verbs.install, install_verbs.update, install_verbs.remove):
    languages.add_command(_verb)


def _running(root: str) -> Iterator[Mapping[str, Any]]:
    """The language servers that the project's workspace server has started."""
    try:
        status = Control(user_paths().control_socket).get("/mcp/status")
    except (NoManager, ManagerFault, ControlRefusal):
        return
    for server in objects(status, "instanceDetails"):
        if server.get("root") == root:
            for source in objects(server, "sources"):
                yield from objects(source, "languageServers")


def lines_below(answer: Mapping[str, Any], servers: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the table has no room for: environment, project files, and how often a server ended.

    Args:
        answer: of the workspace server's command.
        servers: as for `row_of`.
    """
    environment = answer.get("pythonEnvironment")
    if isinstance(environment, Mapping):
        yield f"Environment of Python: {environment.get('path')} ({environment.get('namedBy')})"
    elif "pythonEnvironment" in answer:
        yield "Environment of Python: none"
    for server in servers:
        if files := list(map(str, server.get("projectFiles") or ())):
            more = server.get("moreProjectFiles") or 0
            rest = f" and {more} more" if more else ""
            yield f"Project files for {server.get('server')}: {', '.join(files)}{rest}"
    for server in servers:
        running = server.get("running") or {}
        if running.get("error") and running.get("state") not in DOWN:
            age = running.get("errorAgeS")
            ago = "" if age is None else f" {duration(age)} ago"
            yield f"Last end of {server.get('server')}{ago}: {running['error']}"


def row_of(server: Mapping[str, Any]) -> tuple[object, ...]:
    """The cells of a server's row.

    Args:
        server: as the workspace server describes it, with its process as `running` if it was needed.
    """
    running = server.get("running") or {}
    memory = running.get("memoryMiB")
    state, trouble = _state_of_process(running)
    return (
        ", ".join(map(str, server.get("languages") or ())),
        server.get("server"),
        label_of(state or server.get("state")),
        ", ".join(map(str, server.get("roles") or ())) + (" by single runs" if server.get("oneShot") else ""),
        server.get("version") or running.get("version"),
        None if memory is None else memory * _MIB,
        trouble or server.get("reason") or server.get("program"),
    )


def _state_of_process(running: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The state to show in place of that of the program, and why; none of both if the process works."""
    state, error, restarts = running.get("state"), running.get("error"), running.get("restarts") or 0
    if state in DOWN:
        return state, error
    if restarts >= OFTEN and error:
        return "degraded", f"ended {restarts} times, the last time because {error}"
    return None, None
