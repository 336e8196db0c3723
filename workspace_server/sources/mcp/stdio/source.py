"""A stdio MCP server as a source, whose process starts with the first call or uncached list."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from lm_tools_bridge.text import redaction
from lm_tools_bridge.text.placeholders import missing_variables_in, passing_on
from workspace_server import log
from workspace_server.config.file_issues import display_name
from workspace_server.config.formats.entries import how_to_set
from workspace_server.config.model import StdioServer
from workspace_server.processes.child_process import ChildProcess, ChildStartError, Command, last_words
from workspace_server.results import clean_text
from workspace_server.secrets.entry import InvalidSecretError, SecretStoreError
from workspace_server.source import SourceState
from workspace_server.sources.feature_part import DefinitionGuard
from workspace_server.sources.mcp.failures import SessionFailed
from workspace_server.sources.mcp.lists.list_cache import ListCache, ServerListCache, key_of
from workspace_server.sources.mcp.rpc.hang_check import PING_S, SILENT_S, HangCheck
from workspace_server.sources.mcp.session import Session
from workspace_server.sources.mcp.session_supervisor import SessionSupervisor
from workspace_server.sources.mcp.settings import SourceSettings
from workspace_server.sources.mcp.source import McpSource, T
from workspace_server.sources.mcp.stdio import start_watch
from workspace_server.sources.mcp.stdio.processes import (
    IDLE_S,
    Processes,
    ProcessPerCall,
    ProcessPerSession,
    SharedProcess,
)
from workspace_server.sources.mcp.stdio.restart_policy import RestartPolicy
from workspace_server.sources.mcp.stdio.start_watch import StartWatch
from workspace_server.sources.mcp.stdio.transport import WRITE_S, StdioTransport

if TYPE_CHECKING:
    from workspace_server.sources.mcp.stdio.sandbox import ServerSandbox

Environment = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the variables of every child, with the PATH of the login shell."""
ReadSecret = Callable[[str], Awaitable[str | None]]
"""Returns the stored secret of a name; None if there is none."""
STDERR_LINES: Final = 20
"""Of a traceback, the end says what is wrong."""
CALL_WAIT_S: Final = 45.0
"""How long a call waits for a start. The least patient clients give up after a minute without a reason."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds: a start without a sign of life, a start in all, writing a message, the stages
    of ending, idle processes, requests given up in silence, and the ping that follows them.
    """

    start_s: float = 30.0
    longest_start_s: float = 300.0
    write_s: float = WRITE_S
    polite_s: float = 2.0
    term_s: float = 5.0
    idle_s: float = IDLE_S
    silent_s: float = SILENT_S
    ping_s: float = PING_S


class StdioSource(McpSource):
    """One entry of the configuration.

    Its tools come from the cache where there is one, without starting anything; the first call starts the
    process, and the list is refreshed then.
    """

    def __init__(
        self,
        server: StdioServer,
        *,
        root: str,
        environment: Environment,
        version: str,
        cache: ListCache | None = None,
        sandbox: ServerSandbox | None = None,
        timeouts: Timeouts = Timeouts(),
        policy: Callable[[], RestartPolicy] = RestartPolicy,
        variables: Callable[[], Mapping[str, str]] = dict,
        secrets: ReadSecret | None = None,
        trees: Callable[[], Sequence[str]] = tuple,
        guard: DefinitionGuard | None = None,
    ) -> None:
        """Nothing is started yet.

        Args:
            server: the entry, trusted and enabled.
            root: absolute path of the workspace.
            environment: asked before each start; `server.env` is put on top.
            version: of this product.
            cache: where the last good list is kept.
            sandbox: what its processes are held to; None for nothing.
            timeouts: time limits.
            policy: makes the rules by which a server that ended is started again.
            variables: the variables that entries can name; the server gets only what its entry names.
            secrets: where the secrets of `env_secrets` are, asked before each start; None for nowhere.
            trees: the other working trees of the repository, whose lists are offered until it said its own.
            guard: decides which definitions of its tools are offered.
        """
        key = key_of(_identity(server, root, root))
        if cache is not None:
            cache = ServerListCache(
                cache.folder, key, lambda: (key_of(_identity(server, root, tree)) for tree in trees())
            )
        settings = SourceSettings.of(server)
        super().__init__("stdio", settings, state="idle", cache=cache, cache_key=key, guard=guard)
        self._server = server
        self._root = root
        self._environment = environment
        self._version = version
        self._sandbox = sandbox
        self._timeouts = timeouts
        self._policy = policy()
        self._variables = variables
        self._secrets = secrets
        self._lacking: list[str] = []  # variables that the last failed start named, and that nobody here has
        self._starts = 0
        self._child: ChildProcess | None = None
        self._start_watch: StartWatch | None = None
        self._processes: Processes = self._arrange()

    @property
    def sessions(self) -> Sequence[Session]:
        """The open sessions."""
        return [
            supervisor.session for supervisor in self._processes.supervisors if supervisor.session is not None
        ]

    @property
    def retry_after_ms(self) -> int | None:
        """When it is started again."""
        return self._policy.unavailable(self.error, time.monotonic()).retry_after_ms

    @property
    def is_shared(self) -> bool:
        """See `McpSource.is_shared`."""
        return isinstance(self._processes, SharedProcess)

    @property
    def shared_pid(self) -> int | None:
        """See `Source.shared_pid`; None for a process for each call or session, which nobody shares."""
        is_running = self._child is not None and self._child.returncode is None
        return self._child.pid if self._child is not None and is_running and self.is_shared else None

    async def with_session(self, ask: Callable[[Session], Awaitable[T]], caller: str | None) -> T:
        """As `McpSource.with_session`; starts a process where none runs."""
        async with self._processes.use(caller) as session:
            return await ask(session)

    async def reopen(self) -> str:
        """As `McpSource.reopen`."""
        self._policy.forgive()
        return await self._processes.restart()

    async def refresh(self) -> None:
        """Start at once what is down, and list again."""
        self._policy.forgive()
        if isinstance(self._processes, SharedProcess):
            self._processes.supervisor.try_now()
        await super().refresh()

    def status(self) -> Mapping[str, Any]:
        """Adds program, pid, restarts, last lines of stderr and lacking variables to the status.

        Of the command only the program's name: its arguments may be secret.
        """
        child = self._child
        running = child is not None and child.returncode is None
        return {
            "program": PurePath(self._server.command[0]).name if self._server.command else None,
            "pid": child.pid if child is not None and running else None,
            "processes": len(self.sessions),
            "restarts": max(0, self._starts - 1),
            "stderr": [] if child is None else self._shown(child.stderr.lines(STDERR_LINES)),
            "lacking": self._lacking,
            **self._start_status(),
            **({} if self._sandbox is None else {"refusedBySandbox": self._sandbox.refused}),
            **super().status(),
        }

    def _start_status(self) -> dict[str, Any]:
        watch = self._start_watch
        if watch is None:
            return {}
        return {"startingForS": round(watch.seconds), "silentForS": round(watch.silent_for_s)}

    async def close(self) -> None:
        """End all processes; nothing they started is left. Idempotent."""
        await self.stop_asking()
        await self._processes.close()
        if self._sandbox is not None:
            await asyncio.to_thread(self._sandbox.close)

    def _arrange(self) -> Processes:
        if self._server.sharing == "session":
            return ProcessPerSession(self._make_supervisor, self._timeouts.idle_s)
        return (
            ProcessPerCall(self._make_supervisor)
            if self._server.sharing == "call"
            else SharedProcess(self._make_supervisor)
        )

    def _make_supervisor(self) -> SessionSupervisor:
        shared = self._server.sharing == "workspace"

        def on_state(state: SourceState, error: str | None) -> None:
            # a further process says nothing new about a server that is known to work
            if shared or state not in ("idle", "starting") or self.state != "ready":
                self.set_state(state, error)

        return SessionSupervisor(
            self._start, self._policy, on_state, source=self.id, revive=shared, wait_s=CALL_WAIT_S
        )

    async def _start(self, on_end: Callable[[str], None]) -> Session:
        await self.wait_for_predecessors()  # two processes of one entry would fight for its files and ports
        self._starts += 1
        self._lacking = []
        env = {**await self._environment(), **self._server.env, **await self._secret_variables()}
        child = self._child = await self._start_child(env)
        log.info("source_started", source=self.id, pid=child.pid)
        transport = self._transport(child)
        began = time.monotonic()
        try:
            session = await self._open_session(child, transport, on_end)
        except SessionFailed as failure:
            failure.took_s = time.monotonic() - began
            raise self._explained(failure, child, env, transport.unfinished) from None
        try:
            await session.wait_for_roots()
        except BaseException:
            await session.close()
            raise
        return session

    async def _secret_variables(self) -> Mapping[str, str]:
        """The variables of the entry whose values are stored secrets; reading hides them in all logs.

        Raises:
            SessionFailed: a secret is not stored, or the store cannot be read.
        """
        values: dict[str, str] = {}
        for variable, name in self._server.env_secrets.items():
            try:
                value = await self._secrets(name) if self._secrets is not None else None
            except (SecretStoreError, InvalidSecretError) as error:
                raise SessionFailed(f"the secret {display_name(name)} cannot be read: {error}") from None
            if value is None:
                step = f"store it with: lmtb secrets set {display_name(name)}"
                raise SessionFailed(f'the secret "{display_name(name)}" is not set; {step}')
            values[variable] = value
        return values

    async def _start_child(self, env: Mapping[str, str]) -> ChildProcess:
        command = Command(self._server.command, env, self._server.cwd or self._root)
        try:
            if self._sandbox is not None:
                command = await asyncio.to_thread(self._sandbox.around, command)
            return await ChildProcess.start(command, name=self.id, on_stderr=self._heard)
        except ChildStartError as failure:
            raise SessionFailed(clean_text(str(failure)), final=True) from None

    def _transport(self, child: ChildProcess) -> StdioTransport:
        timeouts = self._timeouts
        return StdioTransport(
            child,
            write_s=timeouts.write_s,
            polite_s=timeouts.polite_s,
            term_s=timeouts.term_s,
            hidden=self._server.env.values(),
        )

    async def _open_session(
        self, child: ChildProcess, transport: StdioTransport, on_end: Callable[[str], None]
    ) -> Session:
        timeouts = self._timeouts
        silent_s = self._server.start_timeout_s or timeouts.start_s
        longest_s = self._server.start_timeout_s or timeouts.longest_start_s
        watch = self._start_watch = StartWatch(
            child, lambda: transport.received, silent_s=silent_s, longest_s=longest_s
        )
        limit = asyncio.timeout(silent_s)
        extending = asyncio.create_task(watch.extend(limit), name=f"start of {self.id}")
        try:
            return await self._handshake(transport, limit, silent_s, on_end)
        finally:
            self._start_watch = None
            extending.cancel()  # not awaited: cancelled there, a session that just opened would be lost

    async def _handshake(
        self,
        transport: StdioTransport,
        limit: asyncio.Timeout,
        silent_s: float,
        on_end: Callable[[str], None],
    ) -> Session:
        timeouts = self._timeouts
        return await Session.open(
            transport,
            source=self.id,
            root=self._root,
            timeout_s=silent_s,
            limit=limit,
            on_change=self.list_changed,
            on_update=self.resource_changed,
            on_end=on_end,
            version=self._version,
            junk=self.junk,
            hang_check=HangCheck(time.monotonic, timeouts.silent_s, timeouts.ping_s),
            offers_apps=self.offers_apps,
        )

    def _explained(
        self, failure: SessionFailed, child: ChildProcess, env: Mapping[str, str], unfinished: bytes
    ) -> SessionFailed:
        """The failure of a start: what came instead of an answer, the variables that the server lacks."""
        text = failure.text
        if failure.lines is not None or unfinished.strip():
            explanation = start_watch.explain(failure.lines or (), unfinished)
            text = f"{text}: {redaction.mask(explanation, self._server.env.values())}"
            words = last_words(child, self._server.env.values())
            text += "" if words in text else words  # what it waits for, or where it listens instead
        if unset := self._server.defaulted:
            those = f"{', '.join(unset)} {_are(unset)} not set, so the default was used"
            text = f"{text}; {those}: {how_to_set(unset[0])}"
        text += "" if self._sandbox is None else self._sandbox.explain()
        if child.returncode is not None:
            variable_names = missing_variables_in(child.stderr.lines(STDERR_LINES), env)
            known_variables = self._variables()
            self._lacking = [name for name in variable_names if name not in known_variables]
            if withheld := [name for name in variable_names if name in known_variables]:
                line = passing_on(withheld, as_json=self._server.origin.file.suffix == ".json")
                names = ", ".join(withheld)
                text = f"{text}; {names} {_are(withheld)} set, but not passed on: add {line} to its entry"
        return SessionFailed(
            text, final=failure.final, retry_after_ms=failure.retry_after_ms, took_s=failure.took_s
        )

    def _shown(self, lines: Sequence[str]) -> list[str]:
        return [redaction.mask(line, self._server.env.values()) for line in lines]

    def _heard(self, line: str) -> None:
        """Log a line of standard error without the values that the entry set."""
        if self._sandbox is not None:
            self._sandbox.note(line)
        log.info("source_stderr", source=self.id, line=redaction.mask(line, self._server.env.values()))


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _identity(server: StdioServer, root: str, tree: str) -> Mapping[str, Any]:
    """What decides which server it is: of this entry, written for `root`, in another working tree."""

    def there(text: str) -> str:
        return text.replace(root, tree)

    return {
        "command": [there(word) for word in server.command],
        "env": {name: there(value) for name, value in server.env.items()},
        "cwd": there(server.cwd),
        "root": tree,
    }
