"""Creates each kind of source from its configuration entry, and imports only the kinds in use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from lm_tools_bridge.machine.git_worktrees import other_trees
from lm_tools_bridge.text import redaction
from workspace_server.config.model import (
    RemoteServer,
    ScriptSettings,
    StdioServer,
)
from workspace_server.source import Source
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.sources.dependencies import Dependencies
from workspace_server.sources.feature_part import DefinitionGuard, SourceWorld, Trust
from workspace_server.sources.inactive import InactiveSource
from workspace_server.trust.item import Verdict

if TYPE_CHECKING:
    from workspace_server.secrets.store import LayeredSecretStore
    from workspace_server.sources.mcp.lists.list_cache import ListCache
    from workspace_server.sources.mcp.remote.authorization import Authorization
    from workspace_server.sources.mcp.stdio.sandbox import ServerSandbox
    from workspace_server.sources.scripts.slots import Slots

WORKSPACE_TOOLS: Final = ".lm-tools-bridge/tools"
USER_TOOLS: Final = "tools"
SYSTEM_TOOLS: Final = Path("/etc/lm-tools-bridge/tools")


class SourceFactory:
    """Makes the sources of one workspace.

    Args:
        dependencies: the workspace's world.
        secrets: the user's secrets, which servers refer to by name.
        searches: what all searches in the workspace share.
    """

    def __init__(
        self, dependencies: Dependencies, secrets: LayeredSecretStore, searches: KeptSearches
    ) -> None:
        self._dependencies = dependencies
        self._secrets = secrets
        self._searches = searches
        self._slots: Slots | None = None
        self._cache: ListCache | None = None

    def script(self, identity: str, scripts: ScriptSettings, trust: Trust) -> Source:
        """The script tools of the workspace, of the user, or of the system."""
        from workspace_server.sources.scripts.source import ScriptSource

        dependencies, own = self._dependencies, identity == "script"
        return ScriptSource(
            identity,
            self._folders(identity, scripts),
            Path(dependencies.root),
            trust if own else None,
            environment=dependencies.child_environment,
            run_dir=self._run_dir,
            libraries=scripts.libraries_path,
            own_libraries=scripts.workspace_libraries_path if own else (),
            slots=self._shared_slots(),
        )

    def code(self) -> Source:
        """The tool that runs any code."""
        from workspace_server.sources.scripts.code import CodeSource

        dependencies = self._dependencies
        root = Path(dependencies.root)
        return CodeSource(
            root,
            environment=dependencies.child_environment,
            run_dir=self._run_dir,
            slots=self._shared_slots(),
        )

    def world(self, trusts: Trust) -> SourceWorld:
        """What sources of features are made from."""
        return SourceWorld(self._dependencies, trusts, self._searches)

    def server(self, entry: StdioServer | RemoteServer, guard: DefinitionGuard | None = None) -> Source:
        """A configured server that may run; `guard` decides which definitions of its tools are offered."""
        return self._with_file(self._server(entry, guard), entry)

    def inactive(
        self,
        entry: StdioServer | RemoteServer,
        state: Literal["disabled", "pending_trust", "failed"],
        verdict: Verdict = "never",
        data: Sequence[str] = (),
        *,
        error: str | None = None,
    ) -> Source:
        """A configured server that may not run; for the arguments see `InactiveSource`."""
        made = InactiveSource(entry, state, verdict, self._dependencies.root, data, error=error)
        return self._with_file(made, entry)

    def _with_file(self, source: Source, entry: StdioServer | RemoteServer) -> Source:
        root, file = Path(self._dependencies.root), entry.origin.file
        key = "timeout (in milliseconds)" if file.suffix == ".json" else "timeout_s"
        source.limit_setting = f"{key} of {entry.namespace} in {file}"
        if entry.origin.scope == "workspace" and file.is_relative_to(root):
            source.project_file = file.relative_to(root).as_posix()
        return source

    def _server(self, entry: StdioServer | RemoteServer, guard: DefinitionGuard | None) -> Source:
        dependencies = self._dependencies
        if isinstance(entry, StdioServer):
            redaction.hide_members(entry.env)
            from workspace_server.sources.mcp.stdio.source import StdioSource

            return StdioSource(
                entry,
                root=dependencies.root,
                environment=dependencies.server_environment,
                version=dependencies.version,
                cache=self._list_cache(),
                sandbox=self._sandbox(entry),
                variables=lambda: dependencies.variables,
                secrets=self._secrets.get,
                trees=lambda: other_trees(Path(dependencies.root)),
                guard=guard,
            )
        redaction.hide(entry.token, entry.client_secret)
        redaction.hide_members(entry.headers)
        from workspace_server.sources.mcp.remote.session_opener import RemoteDependencies
        from workspace_server.sources.mcp.remote.source import RemoteSource

        shared = RemoteDependencies(
            dependencies.root,
            dependencies.version,
            dependencies.variables,
            self._secrets.get,
            authorize=self._authorize,
            own_manager=self._own_manager,
        )
        return RemoteSource(entry, shared, self._list_cache(), guard)

    def _sandbox(self, entry: StdioServer) -> ServerSandbox | None:
        if entry.sandbox is None:
            return None
        from workspace_server.sources.mcp.stdio.sandbox import ServerSandbox

        return ServerSandbox(entry.sandbox, Path(self._dependencies.root), entry.namespace)

    @property
    def _run_dir(self) -> Path:
        # short: the path of a socket in it has a narrow limit
        return self._dependencies.runtime_dir / "run" / self._dependencies.workspace.rpartition("-")[2]

    def _folders(self, identity: str, scripts: ScriptSettings) -> Sequence[Path]:
        if identity == "script":
            return [Path(self._dependencies.root, WORKSPACE_TOOLS), *scripts.workspace_tools_path]
        if identity == "script_user":
            return [self._dependencies.config_dir / USER_TOOLS, *scripts.tools_path]
        return [SYSTEM_TOOLS]

    def _shared_slots(self) -> Slots:
        from workspace_server.sources.scripts.slots import Slots

        self._slots = self._slots or Slots()
        return self._slots

    def _list_cache(self) -> ListCache:
        from workspace_server.sources.mcp.lists.list_cache import ListCache

        self._cache = self._cache or ListCache(self._dependencies.state_dir / "lists")
        return self._cache

    def _own_manager(self, server: RemoteServer) -> Authorization | None:
        from workspace_server.sources.mcp.remote.authorization import (
            OwnManagerToken,
            is_team_offer,
        )

        dependencies = self._dependencies
        is_own = is_team_offer(server, dependencies.manager_port)
        return OwnManagerToken(dependencies.runtime_dir) if is_own else None

    async def _authorize(self, server: RemoteServer) -> Authorization:
        from workspace_server.sources.mcp.remote.oauth import authorizer

        return await authorizer(server, self._secrets)
