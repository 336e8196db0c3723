"""The verb pending, for `lmtb status`: names what waits for trust, as far as files tell. Starts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import click

from lm_tools_bridge.terminal.command_line import json_option, print_json
from workspace_server.command.arguments import UserFolders, real_folder
from workspace_server.command.trust.items import gather
from workspace_server.command.trust.verb import FOLDER
from workspace_server.command.trust.view import short_name
from workspace_server.trust.item import TrustItem, trust_command
from workspace_server.trust.record import RecordedItem
from workspace_server.trust.store import TrustStore


@click.command()
@click.argument("root", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def pending(folders: UserFolders, /, root: Path, **_: bool) -> None:
    """Name what of the workspace ROOT waits for trust.

    Your login shell is not started. So an entry whose variables only that shell sets is not named, and a
    program that only its PATH finds counts as unchanged.
    """
    folder = real_folder(root)
    store = TrustStore(folders.state_dir / FOLDER)
    marks = store.data_marks(folder)
    items = gather(folder, folders.config_dir, os.environ, folders.path, marks, use_shell=False).items
    verdicts = store.verdicts(folder, {item.key: item.digest() for item in items})
    recorded = {} if store.issue(folder) else store.recorded(folder)
    names = [
        short_name(item)
        for item in items
        if verdicts[item.key] != "trusted"
        and not item.is_optional
        and not _differs_in_program_only(item, recorded)
    ]
    print_json({"root": str(folder), "pending": names, "command": trust_command(folder)})


def _differs_in_program_only(item: TrustItem, recorded: Mapping[str, RecordedItem]) -> bool:
    before = recorded.get(item.key)
    if before is None or "program" not in item.facts:
        return False
    facts = {**item.facts, "program": before.facts.get("program")}
    return replace(item, facts=facts).digest() == before.digest
