"""Writes the tool list as one client needs it: under names that it takes, promising what it gets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from workspace_server import naming
from workspace_server.catalog.client_names import ClientNames
from workspace_server.catalog.view import View

_OUTPUT: Final = "outputSchema"

Definition = Mapping[str, Any]


def with_names(definitions: Sequence[Definition], names: ClientNames) -> Sequence[Definition]:
    """The definitions under the client's names, in list order."""
    renamed = [{**tool, "name": names.shown(tool["name"])} for tool in definitions]
    return sorted(renamed, key=lambda tool: naming.sort_key(tool["name"]))


def for_model_of_both(definitions: Sequence[Definition], view: View) -> Sequence[Definition]:
    """The definitions for a client whose model sees the text of results and their structured content.

    Where the text says all (`OfferedTool.repeats_itself`), it gets the text alone, so that the definition
    must not promise structured content: clients refuse results that break this promise.
    """
    return [_without_output(tool) if _repeats_itself(view, tool["name"]) else tool for tool in definitions]


def _repeats_itself(view: View, name: str) -> bool:
    offered = view.get(name)
    return offered is not None and offered.repeats_itself


def _without_output(definition: Definition) -> Definition:
    return {key: value for key, value in definition.items() if key != _OUTPUT}
