"""Describes, for people and programs, the plan that moves or disables servers which clients start."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from lm_tools_bridge.client_setup.adoption.adoption_files import ProjectFiles, UserFiles
from lm_tools_bridge.client_setup.adoption.decision import WORKSPACE_FILE, Adoption, Server
from lm_tools_bridge.client_setup.adoption.project_entry import LEADS_TO_US
from lm_tools_bridge.client_setup.adoption.sharing import Share
from lm_tools_bridge.client_setup.cli.context import user_machine
from lm_tools_bridge.client_setup.cli.masking import mask_for
from lm_tools_bridge.client_setup.clients import CLIENTS
from lm_tools_bridge.client_setup.configured_entries import configuration_of
from lm_tools_bridge.client_setup.workbench import Planned
from lm_tools_bridge.terminal.command_line import say
from manager.cli.output.file_changes import diff_lines, short, show_diff
from manager.status_reading import quoted


def list_left(files: ProjectFiles | UserFiles, adoption: Adoption) -> list[Server]:
    """The servers to name. Of the user's files, our own entry belongs there."""
    is_user = isinstance(files, UserFiles)
    return [server for server in adoption.left if not (is_user and server.reason == LEADS_TO_US)]


def mask_of(files: ProjectFiles | UserFiles, planned: Iterable[Planned]) -> Callable[[str], str] | None:
    """What to mask in the changes; None for a project, whose files others read as well."""
    return mask_for(planned) if isinstance(files, UserFiles) else None


def show_share(
    files: ProjectFiles | UserFiles, planned: Sequence[Planned], adoption: Adoption | None = None
) -> None:
    """Print changes of files, and which servers stay."""
    mask = mask_of(files, planned)
    for file in planned:
        show_diff(file.state.path, file.state.content, file.after, mask=mask)
        if file.keeps_others:
            say(f"{short(file.state.path)} was changed since; what others wrote stays")
    for server in list_left(files, adoption) if adoption is not None else ():
        say(f"stays in {place_of(server)}: {server.name}: {server.reason}")
    if isinstance(files, UserFiles) and planned:
        say("close these clients first: one that runs may write its old content over the change")


def texts_of(share: Share, *, is_done: bool = True) -> list[str]:
    """What becomes of the servers; and how to undo it, once it is done."""
    names = quoted(dict.fromkeys(server.name for server in share.planned.adoption.moved))
    files = share.files
    scope = "--user" if isinstance(files, UserFiles) else f"--cwd {shlex.quote(str(files.root))}"
    if share.moves:
        target = Path(files.target) if isinstance(files, UserFiles) else files.root / WORKSPACE_FILE
        text = f"moved to {short(target)}: {names}"
        if not is_done:
            text = f"your own {names}: move to {short(target)}"
    else:
        text = f"{short(files.root)}: Claude Code no longer starts {names}; .mcp.json stays as it is"
    return [text] if not is_done else [text, f"  undo: lmtb adopt --undo {scope}"]


def next_step(shares: Sequence[Share]) -> str:
    """What a person does after servers were shared."""
    roots = [share.files.root for share in shares if isinstance(share.files, ProjectFiles)]
    trust = "; ".join(f"lmtb trust {shlex.quote(str(root))}" for root in roots)
    steps = [f"allow those to run that were not trusted before: {trust}"] if trust else []
    steps += [_user_step(share.planned.adoption) for share in shares if isinstance(share.files, UserFiles)]
    return "; then ".join(steps)


def _user_step(adoption: Adoption) -> str:
    """Clients lose what moved until they have us."""
    moved = {server.file.client for server in adoption.moved}
    machine = user_machine()
    without = [
        client.id
        for client in CLIENTS
        if client.title in moved and not configuration_of(client, machine, Path.cwd(), None).entries
    ]
    add = (
        f"connect these clients to LM Tools Bridge: lmtb client add {' '.join(without)}; then "
        if without
        else ""
    )
    return f"{add}restart {', '.join(sorted(moved))}, and look with: lmtb doctor"


def share_json(share: Share) -> dict[str, Any]:
    """A plan for programs."""
    adoption, files = share.planned.adoption, share.planned.files
    moved = [
        {"name": server.name, "file": server.file.path, "project": server.file.project}
        for server in adoption.moved
    ]
    left = [
        {
            "name": server.name,
            "file": server.file.path,
            "project": server.file.project,
            "reason": server.reason,
        }
        for server in list_left(share.files, adoption)
    ]
    return {
        "folder": str(share.files.root),
        "way": "move" if share.moves else "keep",
        "files": changes_json(files, mask_of(share.files, files)),
        "moved": moved,
        "left": left,
    }


def changes_json(files: Iterable[Planned], mask: Callable[[str], str] | None) -> list[dict[str, Any]]:
    """Changes of files for programs."""
    return [
        {"file": str(path), "diff": list(diff_lines(path, file.state.content, file.after, mask=mask))}
        for file in files
        for path in [file.state.path]
    ]


def place_of(server: Server) -> str:
    """The file of a server, and the only project in which its client uses it."""
    where = short(Path(server.file.path))
    return where if server.file.project is None else f"{where} (for {short(Path(server.file.project))})"
