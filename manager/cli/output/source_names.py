"""Finds the source of a workspace's tools that a person named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lm_tools_bridge.terminal.command_line import Failure
from lm_tools_bridge.text.near_names import did_you_mean


def source_id(name: str, sources: Sequence[Mapping[str, Any]]) -> str:
    """The id of a source that is named by its id or by the part after the colon.

    Args:
        name: what the person wrote.
        sources: the workspace's, as its server describes them.

    Raises:
        Failure: no source has this name, or several have.
    """
    ids = [str(source.get("id")) for source in sources]
    fitting = [identity for identity in ids if identity == name] or [
        identity for identity in ids if identity.partition(":")[2] == name
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise Failure(f"{name} matches more than one source", f"name one of {', '.join(fitting)}")
    short = [identity.rpartition(":")[2] for identity in ids]
    text = f"this workspace has no source named {name}{did_you_mean(name, (*ids, *short))}"
    raise Failure(text, f"it has {', '.join(ids)}", reason="unknown_source")
