"""Holds the settings of an MCP source that come from its configuration entry (`config/model.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workspace_server.config.model import RemoteServer, StdioServer
from workspace_server.source import Default
from workspace_server.tool import TaskUse, Visibility


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The settings of one MCP source.

    `namespace` names the source; unless it is `bare`, it stands before the names of its tools, too.
    `timeout_s` is the longest one call may take, `task` whether it may be a task. `visibilities` are those of
    single tools. `apps` is whether clients may show its apps.
    """

    namespace: str
    bare: bool = False
    separator: str = "__"
    default: Default = "enabled"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    visibility: Visibility = "native"
    timeout_s: float = 120.0
    visibilities: Mapping[str, Visibility] = field(default_factory=dict)
    task: TaskUse = "forbidden"
    apps: bool = True

    @classmethod
    def of(
        cls, server: StdioServer | RemoteServer, keywords: tuple[str, ...] | None = None
    ) -> SourceSettings:
        """The settings of an entry; `keywords` replace its own."""
        return cls(
            server.namespace,
            server.bare,
            server.separator,
            server.default,
            server.include,
            server.exclude,
            server.keywords if keywords is None else keywords,
            server.visibility,
            server.timeout_s,
            server.visibilities,
            server.task,
            server.apps,
        )
