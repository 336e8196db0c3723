"""Runs the process of one workspace server: reads its instructions, builds its parts, serves, closes them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.protocol.internal import launch as instructions
from lm_tools_bridge.protocol.internal.launch import APPROVAL_WAIT, Folders, LaunchInstructions
from workspace_server import log
from workspace_server.calls.approvals import Approvals
from workspace_server.calls.dispatch import Calls
from workspace_server.calls.gate import CallGate, RateLimiter
from workspace_server.calls.pending_approvals import PendingApprovals
from workspace_server.calls.request_state import RequestStates
from workspace_server.calls.suspended_calls import SuspendedCalls
from workspace_server.calls.toolbox import InternalToolbox
from workspace_server.catalog.active_sources import ActiveSources
from workspace_server.catalog.registry import Registry
from workspace_server.catalog.toolset import Toolset
from workspace_server.http.routes import make_connections
from workspace_server.lifetime import Lifetime
from workspace_server.secrets.store import LayeredSecretStore, open_store
from workspace_server.sources.builtin.kept_searches import KeptSearches
from workspace_server.sources.builtin.source import BuiltinSource
from workspace_server.sources.dependencies import Dependencies
from workspace_server.sources.factory import SourceFactory
from workspace_server.tasks.store import Store
from workspace_server.tasks.tasks import Tasks
from workspace_server.workspace import Workspace

if TYPE_CHECKING:
    from workspace_server.internal_channel.channel import InternalChannel


def version() -> str:
    """The version, or `0` when the program runs from files that were never installed."""
    return _VERSION


def _read_version() -> str:
    try:
        return installed("lm-tools-bridge")
    except PackageNotFoundError:
        return "0"


_VERSION: Final = _read_version()  # as old as the program: a file is not read twice


TASKS: Final = "tasks"
"""The folder of tasks in the state folder, with one folder per workspace."""
CHANNEL_AFTER_S: Final = 1.0
"""Delay before the internal channel is loaded: loading takes 0.1 s and would delay the first answer."""


@dataclass(slots=True)
class Parts:
    """The parts that the server closes. `open_channel` creates the internal channel for a prefix."""

    calls: Calls
    sources: ActiveSources | None = None
    open_channel: Callable[[str], InternalChannel] | None = None
    _channel: InternalChannel | None = None
    _opening: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Open the internal channel after `CHANNEL_AFTER_S` seconds."""
        self._opening = asyncio.create_task(self._open(), name="internal-channel")

    async def close(self) -> None:
        """Close the channel, then the calls and sources, with every process they started."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
        if self._channel is not None:
            await self._channel.stop()
        await self.calls.close()
        await self.calls.toolset.close()
        if self.sources is not None:
            await self.sources.close()

    async def _open(self) -> None:
        """Open the channel. An error is logged and has no other effect."""
        await asyncio.sleep(CHANNEL_AFTER_S)
        try:
            await self.open_internal_channel()
        except (OSError, private_files.UnsafePathError) as error:
            log.error("internal_channel_unavailable", cause=str(error))
        except Exception as fault:  # noqa: BLE001  logged here, because nobody awaits the task
            log.fault("internal_channel_failed", fault)

    async def open_internal_channel(self) -> None:
        """Open the internal channel now.

        Raises:
            OSError: the socket or its file cannot be created.
            private_files.UnsafePathError: other users can access a folder.
        """
        if self.sources is None or self.open_channel is None:
            return
        prefix = (await self.sources.configure()).internal_prefix
        self._channel = await asyncio.to_thread(self.open_channel, prefix)
        await self._channel.start()


def assemble(launch: LaunchInstructions, environ: Mapping[str, str]) -> Parts:
    """Build a workspace server. Without the user's folders it has only its built-in tools."""
    workspace = Workspace.of(Path(launch.root))
    searches = KeptSearches()
    builtin = BuiltinSource(workspace, searches)
    if launch.folders is None:
        return Parts(Calls(Toolset(Registry([builtin]))))
    dependencies = _dependencies(launch, launch.folders, workspace, environ)
    secrets = open_store(dependencies.state_dir, environ)
    registry = Registry()
    sources = ActiveSources(registry, dependencies, [builtin], SourceFactory(dependencies, secrets, searches))
    states = RequestStates(dependencies.workspace, dependencies.state_dir)
    pending = PendingApprovals()
    wait_s = float(launch.settings.get(APPROVAL_WAIT, 0.0))
    gate = CallGate(Approvals(states, pending, wait_s), RateLimiter())
    tasks = Tasks(dependencies.workspace, Store(dependencies.state_dir / TASKS / dependencies.workspace))
    toolset = Toolset(registry, sources.configure, sources.configure_nowait)
    calls = Calls(toolset, gate, SuspendedCalls(states), tasks, pending)
    return Parts(calls, sources, partial(_channel, dependencies, workspace, secrets, calls))


def _dependencies(
    launch: LaunchInstructions, folders: Folders, workspace: Workspace, environ: Mapping[str, str]
) -> Dependencies:
    return Dependencies(
        launch.workspace,
        str(workspace.root),
        version(),
        environ,
        Path(folders.config),
        Path(folders.state),
        Path(folders.runtime),
        launch.manager_port,
    )


def _channel(
    dependencies: Dependencies, workspace: Workspace, secrets: LayeredSecretStore, calls: Calls, prefix: str
) -> InternalChannel:
    from workspace_server.internal_channel.channel import make_channel  # noqa: PLC0415  after the server is ready

    return make_channel(
        workspace=dependencies.workspace,
        root=workspace.root,
        folders=[folder.path for folder in workspace.folders],
        config_dir=dependencies.config_dir,
        state_dir=dependencies.state_dir,
        runtime_dir=dependencies.runtime_dir,
        store=secrets,
        toolbox=InternalToolbox(calls.toolset, calls.run),
        version=dependencies.version,
        prefix=prefix,
    )


# The environment is the largest part, and the kernel takes 128 KiB for one variable.
MAX_INSTRUCTIONS: Final = 1024 * 1024
# Exit code for wrong usage, as of the shell's own commands.
INVALID_INSTRUCTIONS: Final = 2


def main() -> NoReturn:
    """Run until stopped, then end the process: status 0, or 2 if the launch instructions are invalid."""
    log.adopt_libraries()
    launch = _read_instructions()
    sock = None if launch is None else _adopt(launch.listen_fd)
    if launch is None or sock is None:
        _exit(INVALID_INSTRUCTIONS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(launch, sock))
        _exit(0)


def _exit(status: int) -> NoReturn:
    """Exit without waiting for threads: a cancelled search may have left one behind."""
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(status)


def _read_instructions() -> LaunchInstructions | None:
    line = sys.stdin.buffer.readline(MAX_INSTRUCTIONS)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # no child process may read the manager's pipe
    os.close(null)
    try:
        return instructions.decode(line)
    except msgspec.DecodeError as error:
        log.error("launch_instructions_invalid", cause=str(error))
        return None


def _adopt(descriptor: int) -> socket.socket | None:
    try:
        sock = socket.socket(fileno=descriptor)
        listening = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        sock.set_inheritable(False)
        sock.setblocking(False)
    except OSError as error:
        log.error("socket_unusable", descriptor=descriptor, cause=error.strerror)
        return None
    if not listening:
        log.error("socket_not_listening", descriptor=descriptor)
        return None
    return sock


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def serve(launch: LaunchInstructions, sock: socket.socket) -> None:
    """Serve on a listening socket until stopped, and end everything that was started."""
    loop = asyncio.get_running_loop()
    async with serving(launch, sock) as (life, parts):
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError):
                loop.add_signal_handler(number, life.signal, signal.Signals(number).name)
        parts.start()
        await life.until_stopped()
        log.info("stopping", cause=life.cause)


@asynccontextmanager
async def serving(launch: LaunchInstructions, sock: socket.socket) -> AsyncIterator[tuple[Lifetime, Parts]]:
    """Serve on a listening socket for as long as the block lasts."""
    life = Lifetime(launch.grace_s)
    parts = assemble(launch, {**launch.variables, **os.environ})
    connections = make_connections(launch, version(), parts.calls, life)
    try:
        await connections.listen(sock)
        life.on_stop(connections.stop_listening)
        yield life, parts
        await connections.close()
    finally:
        await life.unless_hurried(parts.close())
