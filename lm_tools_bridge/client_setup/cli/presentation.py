"""Shows clients and entries on a terminal, and as values for programs."""

from __future__ import annotations

import json
from typing import Any, Final

from lm_tools_bridge.client_setup.change import ENTRY_NAME
from lm_tools_bridge.client_setup.clients import Client
from lm_tools_bridge.client_setup.entry_upgrade import Entry
from lm_tools_bridge.client_setup.refusals import Refusal
from lm_tools_bridge.client_setup.workbench import Overview
from lm_tools_bridge.terminal.views import Column, Kind, Table
from manager.cli.output.file_changes import short

_CONFIGURED: Final = {"current": "yes", "missing": "no", "outdated": "outdated", "not_ours": "other"}
_COLUMNS: Final = (
    Column("CLIENT", Kind.NAME),
    Column("FOUND", Kind.STATE),
    Column("ENTRY", Kind.STATE),
    Column("FILE", Kind.FOLDER),
)


def configured(overview: Overview) -> str:
    """The word for whether a client is configured."""
    return "unknown" if overview.state is None else _CONFIGURED[overview.state]


def as_json(client: Client, overview: Overview) -> dict[str, Any]:
    """A client for programs."""
    refusal = overview.refusal
    return {
        "client": client.id,
        "title": client.title,
        "installed": overview.installed,
        "configured": configured(overview),
        "file": str(overview.file),
        "problem": None if refusal is None else refusal_json(refusal),
        "undo": overview.can_undo,
    }


def refusal_json(refusal: Refusal) -> dict[str, Any]:
    """A refusal for programs."""
    return {
        "reason": refusal.reason,
        "message": refusal.message,
        "nextStep": refusal.next_step,
        "line": refusal.line,
    }


def client_table(rows: list[tuple[Client, Overview]]) -> Table:
    """The table of clients."""
    cells = [
        (client.id, "yes" if overview.installed else "no", configured(overview), short(overview.file))
        for client, overview in rows
    ]
    return Table(_COLUMNS, cells)


def entry_text(client: Client, entry: Entry) -> str:
    """An entry as it stands in the client's file."""
    if client.form.is_yaml:
        from lm_tools_bridge.client_setup.editing.yaml_servers import text_of

        return text_of(client.form.container, ENTRY_NAME, entry)
    if client.form.dialect is None:
        from lm_tools_bridge.client_setup.editing.toml_edit import with_table

        return str(with_table("", client.form.path, entry)).rstrip()
    return json.dumps({client.form.container: {ENTRY_NAME: entry}}, indent=2, ensure_ascii=False)
