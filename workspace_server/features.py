"""Lists the features of the workspace server.

A feature is a folder of `lm_tools_bridge` and its line in `FEATURES`; nothing else of the workspace server
names it. Its entry module, such as `lm_tools_bridge/skills/workspace_part.py`, has a `PART`: what the feature
adds (`workspace_server/sources/feature_part.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple


class Feature(NamedTuple):
    """A feature.

    Attributes:
        name: its folder in `lm_tools_bridge`.
        commands: verbs that it adds to `workspace_server.command` -> their modules. None of them decides.
    """

    name: str
    commands: Mapping[str, str] = {}


FEATURES: Final = (
    Feature("skills"),
    Feature("pinned_definitions"),
    Feature("editors"),
    Feature("code_intelligence", commands={"languages": "languages_command"}),
)


@cache
def parts() -> Mapping[str, Any]:
    """What each feature adds, by the name of the feature."""
    return {
        feature.name: import_module(f"lm_tools_bridge.{feature.name}.workspace_part").PART
        for feature in FEATURES
    }
