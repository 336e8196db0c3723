"""Finds the servers of known workspaces that a client starts itself, beside the manager."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from lm_tools_bridge.client_setup.adoption.project_file_formats import ServersFile
from lm_tools_bridge.client_setup.adoption.project_files import ProjectFiles
from lm_tools_bridge.client_setup.cli.context import user_machine
from lm_tools_bridge.protocol.internal.client_traits import namespace_of
from manager.cli.output.findings import Finding, Level, Situation
from manager.disk import claude_approvals
from manager.disk.claude_approvals import read_approvals
from manager.status_reading.responses import merged_workspaces


def client_servers(situation: Situation) -> Iterator[Finding]:
    """Servers of known workspaces that a client starts itself, as far as `lmtb adopt` can move them."""
    if situation.status is None:
        return
    roots = {
        row["root"]: row for row in merged_workspaces(situation.status) if isinstance(row.get("root"), str)
    }
    for root, row in roots.items():
        started = _known_to_start(Path(root), situation.paths.state_dir)
        if started:
            servers = "; ".join(
                f"{file.client} starts {', '.join(names)} of {file.path}" for file, names in started.items()
            )
            text = f"{row.get('workspace')} ({root}): {servers}, in addition to the manager"
            hint = f"move them into its workspace.toml: lmtb adopt --cwd {shlex.quote(root)}"
            yield Finding(Level.WARN, "client servers", text, hint)


def _known_to_start(root: Path, state_dir: Path) -> dict[ServersFile, list[str]]:
    """What clients start, without servers that the user did not allow in Claude Code, which asks."""
    machine = user_machine()
    allowed = read_approvals(machine.environ, machine.home, root).own_servers("")
    started = {}
    for file, names in ProjectFiles(root, state_dir).started_by_clients().items():
        is_asked = file.path == claude_approvals.FILE
        started_names = [
            name for name in names if not is_asked or allowed.starts(file.path, namespace_of(name))
        ]
        if started_names:
            started[file] = started_names
    return started
