"""Data classes of the configuration, independent of file formats.

Every entry carries its origin, because entries of the workspace need trust and the user's own do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from lm_tools_bridge.protocol.issues import Issue
from workspace_server.source import Default
from workspace_server.tool import TaskUse, Visibility

Scope = Literal["user", "workspace"]
Sharing = Literal["workspace", "session", "call"]
"""Scope of one process of a stdio server: all clients of the workspace, one session, or one call."""
Approval = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class EntryOrigin:
    """The file of an entry, and whether it belongs to the user or to the workspace."""

    file: Path
    scope: Scope


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a stdio server may do to files beside reading them, and whether it may use the network.

    It may always write to the project but for its `.git`, to a temporary folder and to caches of its own.

    Attributes:
        is_on: False for an entry that says that it wants none.
        write: further files and folders that it may write, absolute.
        unread: files and folders that it may not read, absolute.
        fixed: files and folders that it may not write although they lie in one that it may, absolute.
        network: False for none at all.
    """

    is_on: bool = True
    write: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    network: bool = True


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """What stdio and remote servers have in common.

    Attributes:
        namespace: name of the entry and prefix of its tools' names.
        bare: no prefix: the tools keep the server's own names (an empty namespace in the file).
        visibilities: visibility of single tools, by the server's own names.
        timeout_s: longest duration of a call.
        start_timeout_s: longest duration of a start; None for the usual limits.
        task: whether a call may or must become a task.
        apps: whether clients may show its apps (MCP Apps); if not, it is not told of any that can.
        raw: the entry as written, before expansion.
        defaulted: environment variables that are not set, so that their default in the entry is used.
        unkept: keys of the entry that limit the server and cannot be kept; with one it does not start.
        order: position among all servers of both kinds, in configuration order.
    """

    namespace: str
    _: KW_ONLY
    bare: bool = False
    enabled: bool = True
    visibility: Visibility = "native"
    separator: str = "__"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    default: Default = "enabled"
    timeout_s: float = 120.0
    start_timeout_s: float | None = None
    task: TaskUse = "forbidden"
    apps: bool = True
    visibilities: Mapping[str, Visibility] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    defaulted: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()
    order: int = 0


@dataclass(frozen=True, slots=True)
class StdioServer(ServerEntry):
    """One stdio MCP server, with placeholders expanded.

    Attributes:
        env: the variables that the entry itself sets.
        env_secrets: variables -> the names of the stored secrets that are their values.
        cwd: working folder, absolute.
        sharing: which callers share one process.
        files: the bytes of environment files that the entry names.
        data: files of the command, as it writes them, that the server may change without new trust.
        sandbox: what it is held to; None if neither the entry nor a setting says so.
    """

    command: tuple[str, ...]
    origin: EntryOrigin
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_secrets: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    sharing: Sharing = "workspace"
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    data: tuple[str, ...] = ()
    sandbox: Sandbox | None = None


@dataclass(frozen=True, slots=True)
class RemoteServer(ServerEntry):
    """One remote MCP server, with placeholders expanded and no trailing `/` in its URL.

    At most one of `token`, `token_env` and `token_secret` is set; `auth` is `oauth` or empty. `headers` are
    sent with every request. `allow_private` permits addresses of this machine and its networks. `transport`
    is `http`, `sse`, or `auto`: Streamable HTTP with a fallback to the older HTTP+SSE transport.
    """

    url: str
    origin: EntryOrigin
    token: str = field(default="", repr=False)
    token_env: str = ""
    token_secret: str = ""
    auth: Literal["", "oauth"] = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    transport: Literal["auto", "http", "sse"] = "auto"
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class PolicyDeltas:
    """The four delta lists of the policy, each sorted and without duplicates.

    `closed`: a rule that hides tools cannot be read, so no tool is visible.
    """

    exposed: tuple[str, ...] = ()
    unexposed: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    closed: bool = False


@dataclass(frozen=True, slots=True)
class VisibilityChoices:
    """The visibilities that the user chose for this workspace: of single tools and of whole sources.

    Attributes:
        tools: by the name under which a tool is offered; these win.
        sources: by the source's id.
    """

    tools: Mapping[str, Visibility] = field(default_factory=dict)
    sources: Mapping[str, Visibility] = field(default_factory=dict)

    def choice(self, tool: str, source: str) -> Visibility | None:
        """What was chosen for this tool of this source; None if nothing was."""
        return self.tools.get(tool) or self.sources.get(source)


@dataclass(frozen=True, slots=True)
class GroupingRule:
    """One rule for the display of tools in groups: names that match `pattern` belong to it."""

    id: str
    label: str
    pattern: str
    flags: str = ""


@dataclass(frozen=True, slots=True)
class ScriptSettings:
    """Settings of script tools, with absolute folders; only the user's file can enable `execute_code`.

    `tools_path` and `libraries_path` come from the user's file. The folders of the workspace's file are
    separate, because they need trust; they lie inside the workspace.
    """

    tools_path: tuple[Path, ...] = ()
    libraries_path: tuple[Path, ...] = ()
    workspace_tools_path: tuple[Path, ...] = ()
    workspace_libraries_path: tuple[Path, ...] = ()
    execute_code: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """The complete configuration of one workspace, and the issues of its files.

    Attributes:
        stdio, remote: the servers, in configuration order: user file, workspace file, imported files.
        builtin: whether the built-in tools are enabled.
        features: the settings of features, by the names of the features.
        deltas: the delta lists in force.
        widening: changes that need trust: names that the workspace's `exposed` and `enabled` lists would add,
            and names it would remove from `unexposed` and `disabled`.
        widening_defaults: schema defaults that need trust; None if there are none.
        policy_file: the file that policy changes are saved to.
        schema_defaults: the `tool.param=value` entries in force, as (tool, param, value).
        approvals: the decision per tool.
        visibility: the user's choices, in place of what the sources of tools say.
        inherits_trust: whether what was trusted in another worktree of the repository is trusted here.
        internal_prefix: prefix of the internal tools' names.
        call_timeout_s: default for the longest duration of a call.
        call_timeout_file: the file in which that is set, or would be.
        debug: `off`, `simple` or `detail`.
    """

    stdio: tuple[StdioServer, ...] = ()
    remote: tuple[RemoteServer, ...] = ()
    builtin: bool = True
    features: Mapping[str, Any] = field(default_factory=dict)
    deltas: PolicyDeltas = PolicyDeltas()
    widening: PolicyDeltas = PolicyDeltas()
    widening_defaults: tuple[tuple[str, str, Any], ...] | None = None
    policy_file: Path = Path()
    schema_defaults: tuple[tuple[str, str, Any], ...] = ()
    grouping_rules: tuple[GroupingRule, ...] = ()
    scripts: ScriptSettings = ScriptSettings()
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    visibility: VisibilityChoices = VisibilityChoices()
    inherits_trust: bool = True
    internal_prefix: str = "openllm_"
    call_timeout_s: float = 120.0
    call_timeout_file: Path = Path()
    debug: Literal["off", "simple", "detail"] = "off"
    issues: tuple[Issue, ...] = ()

    @property
    def call_timeout_setting(self) -> str:
        """The setting `call_timeout_s`, with the file to change."""
        return f"call_timeout_s in {self.call_timeout_file}"

    @property
    def servers(self) -> list[StdioServer | RemoteServer]:
        """The servers of both kinds in configuration order."""
        both: list[StdioServer | RemoteServer] = [*self.stdio, *self.remote]
        return sorted(both, key=lambda server: server.order)

    @property
    def makes_tasks(self) -> bool:
        """Whether calls of a server may become tasks."""
        return any(server.enabled and server.task != "forbidden" for server in self.servers)
