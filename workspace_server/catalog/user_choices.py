"""Applies what the user chose for tools: visibilities, and default values of arguments. Pure.

`config/` reads the choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from lm_tools_bridge.protocol.issues import Issue
from workspace_server.catalog.registry import OfferedTool
from workspace_server.config.model import VisibilityChoices
from workspace_server.tool import Visibility

Origin = Literal["source", "yours", "yours_for_source"]
"""Who says which visibility a tool has: its source, or the user for it or for all tools of its source."""


def apply_visibility(tools: Sequence[OfferedTool], choices: VisibilityChoices) -> Sequence[OfferedTool]:
    """The tools with the chosen visibilities; the same objects where nothing is chosen."""
    if not (choices.tools or choices.sources):
        return tools
    return [_applied(offered, choices.choice(offered.name, offered.source.id)) for offered in tools]


def _applied(offered: OfferedTool, chosen: Visibility | None) -> OfferedTool:
    if chosen is None or (chosen == offered.tool.visibility and not offered.tool.unlisted):
        return offered
    return replace(offered, tool=replace(offered.tool, visibility=chosen, unlisted=""))


def visibility_origin(offered: OfferedTool, choices: VisibilityChoices) -> Origin:
    """Who says which visibility a tool has."""
    if offered.name in choices.tools:
        return "yours"
    return "yours_for_source" if offered.source.id in choices.sources else "source"


def apply_defaults(
    tools: Sequence[OfferedTool], entries: Iterable[tuple[str, str, Any]]
) -> tuple[Sequence[OfferedTool], list[Issue]]:
    """The tools with these (tool, parameter, value) entries, and a warning for each entry that cannot apply.

    Entries about unknown tools are ignored without a warning: the tool may appear later.
    """
    by_tool: dict[str, dict[str, Any]] = {}
    for name, parameter, value in entries:
        by_tool.setdefault(name, {})[parameter] = value
    if not by_tool:
        return tools, []
    issues: list[Issue] = []
    applied = [
        _with_defaults(offered, by_tool[offered.name], issues) if offered.name in by_tool else offered
        for offered in tools
    ]
    return applied, issues


def _with_defaults(offered: OfferedTool, defaults: Mapping[str, Any], issues: list[Issue]) -> OfferedTool:
    schema = offered.schema
    properties = schema.get("properties")
    properties = dict(properties) if isinstance(properties, Mapping) else {}
    kept = {}
    for parameter, value in defaults.items():
        problem = _problem(schema, properties, parameter, value)
        if problem is None:
            kept[parameter] = value
            properties[parameter] = {**properties[parameter], "default": value}
        else:
            text = f"The default for {offered.name}.{parameter} is ignored: {problem}"
            issues.append(Issue("warning", "config", "SCHEMA_DEFAULT_IGNORED", text, offered.name))
    definition = {**offered.definition, "inputSchema": {**schema, "properties": properties}}
    return replace(offered, definition=definition, defaults=kept) if kept else offered


def _problem(
    schema: Mapping[str, Any], properties: Mapping[str, Any], parameter: str, value: Any
) -> str | None:
    if parameter not in properties or not isinstance(properties[parameter], Mapping):
        return "the tool has no such parameter"
    if parameter in schema.get("required", ()):
        return "the parameter is required"
    # loaded here: few users set defaults
    from workspace_server.schemas.validation import validator_for

    # the whole schema, so that references inside it keep their meaning
    alone = {**schema, "properties": {parameter: properties[parameter]}, "required": []}
    try:
        problems = validator_for(alone).check({parameter: value})
    except ValueError:
        return "the tool's schema cannot be checked"
    return problems[0].message if problems else None
