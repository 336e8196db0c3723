"""Describes all tools of a workspace for `lmtb tools`: listed, hidden, and why. Pure.

For the manager and its command line only; clients get lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lm_tools_bridge.protocol import jsonrpc
from lm_tools_bridge.text.text_tokens import text_tokens
from workspace_server.calls import gate
from workspace_server.catalog import view as schema_defaults
from workspace_server.catalog.offerings import OfferedEntry
from workspace_server.catalog.registry import OfferedTool
from workspace_server.catalog.toolset import Toolset
from workspace_server.catalog.view import APPS_ONLY, Mode, View
from workspace_server.config.model import Configuration
from workspace_server.config.policy import BUILT_IN_DISABLED
from workspace_server.methods.instructions import Reader, instructions
from workspace_server.results import clean_text
from workspace_server.tool_search.definitions import EXECUTE, SEARCH

_AROUND: Final = 25
"""Tokens of the JSON around a tool in a request to a model, and of what the client puts before its name."""


def inspection(toolset: Toolset, view: View, root: str) -> dict[str, Any]:
    """`{ok, tools, metaTools, instructions, skills, sources, issues}`.

    A tool has `name`, `source` and its `kind`, `group`, `visibility` and `visibilityOrigin`
    (`catalog/view.py`), `listed` (in normal mode), `unlisted` (why it is left out of lists
    for models, if it is), `repeatsClients` (whether lists for agents with file tools of their own
    leave it out), `state` (`callable`, `hidden` or `pending`), `reason` if it
    cannot be called, `tokens` (of what agents send to models), `approval` (`allow`, `ask` or `deny`) and
    `description`. A skill has `uri`, `name`, `source`, `state`, `description`, `fileCount`. A
    source has `visibility` if the user chose one for all its tools. The listed meta-tools have `name` and
    `tokens`, the instructions `tokens`.

    Args:
        toolset, view: the workspace's sources, and what can be called now.
        root: the project's folder, which the instructions name.
    """
    from workspace_server.config.grouping import Grouping  # noqa: PLC0415  loads the schema library; rarely asked

    grouping = Grouping(view.configuration.grouping_rules)
    definitions = {
        str(definition["name"]): definition for definition in view.for_models().listed(Mode.NORMAL)
    }
    listed_names = set(definitions)
    configuration = view.configuration
    rows = [_row(offered, listed_names, view) for offered in view.tools]
    for name, reason in view.hidden.items():
        offered = view.snapshot.get(name)
        pending = name in view.snapshot.withheld
        row: dict[str, Any] = {"name": name} if offered is None else _row(offered, listed_names, view)
        rows.append({**row, "listed": False, "state": "pending" if pending else "hidden", "reason": reason})
    for row in rows:
        group = grouping.group(row["name"], row.get("kind", ""), BUILT_IN_DISABLED)
        row["group"] = {"id": group.id, "label": group.label}
    return {
        "ok": True,
        "tools": sorted(rows, key=lambda row: (row["name"].lower(), row["name"])),
        "metaTools": [
            {"name": name, "tokens": tokens(definitions[name])}
            for name in (SEARCH, EXECUTE)
            if name in definitions
        ],
        "instructions": {"tokens": round(text_tokens(instructions(view, root, Reader())))},
        "skills": _skills(view),
        "sources": [_with_choice(row, configuration) for row in toolset.sources(closely=True)],
        "issues": [issue.as_json() for issue in toolset.issues()],
    }


def _skills(view: View) -> list[dict[str, Any]]:
    rows = [
        {
            "uri": offered.name,
            "name": clean_text(str(_front_matter(offered).get("name"))),
            "source": offered.source.id,
            "state": "listed",
            "description": clean_text(str(_front_matter(offered).get("description"))),
            "fileCount": _count(offered.definition.get("resources")),
        }
        for offered in view.snapshot.offerings.skills
    ]
    for source in view.snapshot.sources:
        rows += [{"name": name, "source": source.id, "state": "pending"} for name in source.pending_names()]
    return rows


def _front_matter(offered: OfferedEntry) -> Mapping[str, Any]:
    front_matter = offered.definition.get("frontmatter")
    return front_matter if isinstance(front_matter, Mapping) else {}


def _count(files: object) -> int | None:
    return len(files) if isinstance(files, Sequence) and not isinstance(files, str) else None


def _with_choice(source: Mapping[str, Any], configuration: Configuration) -> Mapping[str, Any]:
    visibility = configuration.visibility.sources.get(source["id"])
    return source if visibility is None else {**source, "visibility": visibility}


def _row(offered: OfferedTool, listed_names: set[str], view: View) -> dict[str, Any]:
    configuration, choices = view.configuration, view.configuration.visibility
    is_app_only = view.apps is not None and offered.name in view.apps.app_only
    reason = APPS_ONLY if is_app_only else offered.tool.unlisted
    unlisted = {"unlisted": reason} if reason else {}
    return {
        "name": offered.name,
        "source": offered.source.id,
        "kind": offered.source.kind,
        "visibility": choices.choice(offered.name, offered.source.id) or offered.tool.visibility,
        "visibilityOrigin": schema_defaults.visibility_origin(offered, choices),
        "listed": offered.name in listed_names,
        **unlisted,
        **({"repeatsClients": True} if view.repeats_clients(offered) else {}),
        "state": "callable",
        "tokens": tokens(offered.definition),
        "approval": gate.policy(offered.name, offered.tool, configuration.approvals),
        "description": clean_text(offered.tool.description),
    }


def tokens(definition: Mapping[str, Any]) -> int:
    """Estimated tokens of what agents send to models of a tool: its name, description and input schema."""
    schema = jsonrpc.dumps(definition.get("inputSchema", {})).decode()
    texts = (str(definition["name"]), str(definition.get("description", "")), schema)
    return round(_AROUND + sum(map(text_tokens, texts)))
