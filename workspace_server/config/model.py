"""What a configuration says, whatever file it came from: shapes only. Reading the files is `load.py`.

Every entry remembers its origin, because content of the workspace runs only once it is trusted while the
user's own does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from protocol.issues import Issue
from workspace_server.source import Default
from workspace_server.tool import TaskUse, Visibility

Scope = Literal["user", "workspace"]
Sharing = Literal["workspace", "session", "call"]
"""Who shares one process of a stdio server: every client of the workspace, one session, nobody."""
Approval = Literal["allow", "ask", "deny"]


@dataclass(frozen=True, slots=True)
class EntryOrigin:
    """Where an entry was read: the file, and whether it belongs to the user or to the workspace."""

    file: Path
    scope: Scope


@dataclass(frozen=True, slots=True)
class StdioServer:
    """One stdio MCP server, variables expanded.

    `namespace` names the entry, and stands before the names of its tools unless they are `bare`: written as
    an empty namespace, it leaves them the server's own names. `cwd` is absolute. `env` is what the entry
    itself sets. `timeout_s` is the longest a call may take, `task` whether it may be a task. `visibilities`
    are those of single tools, by the server's own names. `raw` is the entry as it is written, before
    expansion; `files` are the bytes of other files it was made from (environment files). `order` is its place
    among all servers, of either kind, in configuration order.
    """

    namespace: str
    command: tuple[str, ...]
    origin: EntryOrigin
    bare: bool = False
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str = ""
    enabled: bool = True
    visibility: Visibility = "native"
    separator: str = "__"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    default: Default = "enabled"
    timeout_s: float = 120.0
    task: TaskUse = "forbidden"
    sharing: Sharing = "workspace"
    visibilities: Mapping[str, Visibility] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    order: int = 0


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """One remote MCP server, variables expanded, no trailing `/`.

    At most one of `token`, `token_env` and `token_secret` is set; `auth` is `oauth` or empty. `headers` are
    sent along. `allow_private` permits addresses of this machine and its networks. `transport` is
    `http`, `sse`, or `auto`: Streamable HTTP, and the older SSE where the server refuses that.
    `namespace`, `bare`, `task`, `visibilities`, `raw` and `order` as in `StdioServer`.
    """

    namespace: str
    url: str
    origin: EntryOrigin
    bare: bool = False
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
    enabled: bool = True
    visibility: Visibility = "native"
    separator: str = "__"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    default: Default = "enabled"
    timeout_s: float = 120.0
    task: TaskUse = "forbidden"
    visibilities: Mapping[str, Visibility] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)
    order: int = 0


@dataclass(frozen=True, slots=True)
class PolicyDeltas:
    """The four delta lists of the policy, each sorted and without duplicates."""

    exposed: tuple[str, ...] = ()
    unexposed: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupingRule:
    """How tools are grouped for display."""

    id: str
    label: str
    pattern: str
    flags: str = ""


@dataclass(frozen=True, slots=True)
class ScriptSettings:
    """Settings of script tools. The lists are absolute folders; `execute_code` only the user can switch on.

    `tools_path` and `libraries_path` are the user's. What the workspace's file names stands apart, because
    it needs trust; those folders lie in the workspace.
    """

    tools_path: tuple[Path, ...] = ()
    libraries_path: tuple[Path, ...] = ()
    workspace_tools_path: tuple[Path, ...] = ()
    workspace_libraries_path: tuple[Path, ...] = ()
    execute_code: bool = False


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything in force for one workspace at one moment, and what is wrong with the files.

    Attributes:
        stdio, remote: the servers, in configuration order: user file, workspace file, imported files.
        builtin: whether there are built-in tools.
        deltas: the policy in force, schema defaults likewise.
        widening: what an untrusted workspace file asks for and does not get yet: names its `exposed`
            and `enabled` lists would add, and names its scope would take out of `unexposed` and `disabled`.
        widening_defaults: the schema defaults that wait likewise; None when none wait.
        policy_file: the file of ours that a change of the policy is saved in.
        schema_defaults: `tool.param=value` entries as (tool, param, value).
        approvals: the user's decision per tool.
        internal_prefix: the beginning of internal tools' names.
        call_timeout_s: the longest a call may take where nothing else says so.
        debug: `off`, `simple` or `detail`.
    """

    stdio: tuple[StdioServer, ...] = ()
    remote: tuple[RemoteServer, ...] = ()
    builtin: bool = True
    deltas: PolicyDeltas = PolicyDeltas()
    widening: PolicyDeltas = PolicyDeltas()
    widening_defaults: tuple[tuple[str, str, Any], ...] | None = None
    policy_file: Path = Path()
    schema_defaults: tuple[tuple[str, str, Any], ...] = ()
    grouping_rules: tuple[GroupingRule, ...] = ()
    scripts: ScriptSettings = ScriptSettings()
    approvals: Mapping[str, Approval] = field(default_factory=dict)
    internal_prefix: str = "openllm_"
    call_timeout_s: float = 120.0
    debug: Literal["off", "simple", "detail"] = "off"
    issues: tuple[Issue, ...] = ()

    @property
    def servers(self) -> list[StdioServer | RemoteServer]:
        """The servers of both kinds in configuration order."""
        both: list[StdioServer | RemoteServer] = [*self.stdio, *self.remote]
        return sorted(both, key=lambda server: server.order)

    @property
    def makes_tasks(self) -> bool:
        """Whether calls of a server may become tasks."""
        return any(server.enabled and server.task != "forbidden" for server in self.servers)
