"""Adds skills to the workspace server: their source, the table `[skills]`, and what needs trust."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from workspace_server.config.feature_settings import FileTables, read_enabled
from workspace_server.source import Source
from workspace_server.sources.feature_part import FeaturePart, NeedsTrust, SourceSpec, SourceWorld
from workspace_server.trust.item import Verdict


class SkillsPart(FeaturePart[bool, bool]):
    """Its setting is whether skills are served; either file can switch them off."""

    keys = ("skills.enabled",)

    def read_file(self, tables: FileTables) -> bool:
        """Whether this file leaves skills on."""
        return read_enabled(tables.fields("skills"), "skills", "skills", tables.context.notes)

    def combine(self, user: bool, ours: bool, *, builtin: bool, shared: Mapping[str, Any]) -> bool:
        """Whether both files leave them on."""
        return user and ours

    def sources(
        self, settings: bool, world: SourceWorld, trusted: frozenset[tuple[str, str]]
    ) -> Iterator[SourceSpec]:
        """The skills of the workspace and of the user."""
        if settings:
            yield SourceSpec("skills", None, partial(_make_source, world))

    def needs_trust(
        self, root: Path, settings: bool, search: str, *, state_dir: Path | None, starts_programs: bool
    ) -> NeedsTrust:
        """The skills of the project."""
        from lm_tools_bridge.skills.catalog import SkillCatalog

        if not settings:
            return NeedsTrust()
        snapshot = SkillCatalog(root, _trust_nothing, keep_items=True).look()
        return NeedsTrust(snapshot.items, snapshot.issues)


def _make_source(world: SourceWorld) -> Source:
    from lm_tools_bridge.skills.catalog import user_folders
    from lm_tools_bridge.skills.source import SkillSource

    dependencies = world.dependencies
    own = user_folders(dependencies.config_dir, dependencies.environ)
    return SkillSource(Path(dependencies.root), world.trusts, own)


def _trust_nothing(digests: Mapping[str, str]) -> Mapping[str, Verdict]:
    return dict.fromkeys(digests, "never")


PART: Final = SkillsPart()
