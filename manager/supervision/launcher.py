"""Starts one workspace's server: listening socket, process, launch instructions, first health answer.

The launcher also adopts a server that a previous manager started. `supervisor.py` decides when to start one;
`process.py` is the process itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
from pathlib import Path

import msgspec
from msgspec import structs

from lm_tools_bridge.machine.process_facts import start_time
from lm_tools_bridge.protocol.internal import launch
from manager.startup.port import reserve
from manager.state_file import InstanceRow
from manager.supervision import environment, process
from manager.supervision import leftovers as leftover_files
from manager.supervision.dependencies import Dependencies
from manager.supervision.instance import Instance
from manager.supervision.leftovers import remove_leftover_files
from manager.upstream.failures import UpstreamFailure


class FailedStart(msgspec.Struct, frozen=True):
    """A failed start.

    Attributes:
        why: the reason as a sentence.
        exit_code: of the process, if it exited by itself.
        cause: a word for what kept the process from being started at all; None if one was started.
    """

    why: str
    exit_code: int | None = None
    cause: str | None = None


class Launcher:
    """Starts and adopts the servers of one workspace, one at a time."""

    def __init__(self, workspace: str, root: str, dependencies: Dependencies) -> None:
        self._workspace = workspace
        self._root = root
        self._dependencies = dependencies
        self._listener: socket.socket | None = None

    @property
    def log_file(self) -> Path:
        """File with the server's output."""
        return self._dependencies.logs_dir / f"{self._workspace}.log"

    async def start(self) -> Instance | FailedStart:
        """Start a server and wait until it answers. A failed or cancelled start leaves nothing behind."""
        instance: Instance | None = None
        failed: FailedStart | None = FailedStart("the start was cancelled")
        try:
            instance = self._prepare()
            await self._spawn(instance)
            failed = await self._first_answer(instance)
        except OSError as error:
            word = "port_exhausted" if error.errno == errno.EADDRINUSE else "not_started"
            failed = FailedStart(f"cannot be started: {error}", cause=word)
        finally:
            if failed is not None and instance is not None:
                failed = await self._discard(instance, failed)
        if failed is not None:
            return await self._explained(failed)
        assert instance is not None  # noqa: S101  narrows the type: it answered
        return instance

    async def adopt(self, row: InstanceRow) -> Instance | None:
        """Take over a server that a previous manager started, if it is still the same process.

        A process that runs but does not answer is killed, so that it cannot stay behind unnoticed.
        """
        instance = self._instance(row.instance, row.port, row.nonce, row.secret)
        adopted = process.Process.adopt(row.pid, row.started) if row.pid else None
        if (
            adopted is None and row.pid
        ):  # who has its port now may know the nonce, but must not get the secret
            await self.forget(instance)
            return None
        try:
            body = await instance.check(
                self._dependencies.settings.health_timeout_s * 2, self._dependencies.now()
            )
        except UpstreamFailure:
            if adopted is not None:
                adopted.kill_group()
                await adopted.wait()
            await self.forget(instance)
            return None
        adopted = adopted or _process_from_health(body)
        if adopted is None:
            await self.forget(instance)
            return None
        instance.process, instance.pid, instance.is_adopted = adopted, adopted.pid, True
        await self._save(instance)
        return instance

    async def forget(self, instance: Instance) -> None:
        """Clean up after an exited server: its connections, processes, files and ledger entry."""
        await instance.pool.close()
        await asyncio.to_thread(leftover_files.kill_leftovers, instance.id)
        if (folders := self._dependencies.folders) is not None:
            await asyncio.to_thread(remove_leftover_files, Path(folders.runtime))
        await self._dependencies.store.drop_instance(self._workspace, instance.id)

    def close(self) -> None:
        """Close the listening socket."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    async def _explained(self, failed: FailedStart) -> FailedStart:
        """A failed start, with the cause if that is the installation."""
        installation = self._dependencies.installation
        if installation is not None:
            await installation.check()
        problem = self._dependencies.installation_problem
        return failed if problem is None else FailedStart(problem, failed.exit_code, failed.cause)

    def _prepare(self) -> Instance:
        settings = self._dependencies.settings
        if self._listener is None:
            ports = range(settings.port_range_start, settings.port_range_end + 1)
            self._listener = reserve(self._dependencies.rng, ports)
        return self._instance(
            f"i-{secrets.token_hex(4)}",
            self._listener.getsockname()[1],
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(32),
        )

    async def _spawn(self, instance: Instance) -> None:
        dependencies = self._dependencies
        assert self._listener is not None  # noqa: S101  narrows the type: `_prepare` made it
        # before the start: a ledger entry without a process does no harm, a process without one stays behind
        if not await self._save(instance):
            cure = "free disk space, or make the state folder writable"
            raise OSError(f"nothing can be saved, so a later manager would not find it; {cure}")
        instructions = launch.LaunchInstructions(
            workspace=self._workspace,
            root=self._root,
            instance=instance.id,
            nonce=instance.nonce,
            secret=instance.secret,
            listen_fd=self._listener.fileno(),
            grace_s=dependencies.settings.grace_s,
            settings={launch.APPROVAL_WAIT: dependencies.waiting_calls.wait_s},
            folders=dependencies.folders,
            manager_port=dependencies.port,
            variables=environment.configuration_variables(dependencies.environ),
        )
        spec = process.ProcessSpec(
            launch.encode(instructions),
            self._listener,
            self._root,
            self.log_file,
            dependencies.environ,
            instance.id,
        )
        forked = None if dependencies.fork_server is None else await dependencies.fork_server.fork(spec)
        instance.process = forked or process.spawn(spec)
        instance.pid = instance.process.pid
        await self._save(instance)

    async def _first_answer(self, instance: Instance) -> FailedStart | None:
        """Wait for the first health answer. The request waits in the backlog of the listening socket."""
        assert instance.process is not None  # noqa: S101  narrows the type: it was just started
        limit = self._dependencies.settings.start_timeout_s
        check = asyncio.create_task(instance.check(limit, self._dependencies.now()))
        ended = asyncio.create_task(instance.process.wait())
        try:
            await asyncio.wait({check, ended}, return_when=asyncio.FIRST_COMPLETED, timeout=limit)
            if check.done() and check.exception() is None:
                return None
            if ended.done():
                code = ended.result()
                return FailedStart(f"start failed: {instance.process.ending.words(code)}", code)
            return FailedStart("start failed: did not answer in time")
        finally:
            for task in (check, ended):
                task.cancel()
            await asyncio.gather(check, ended, return_exceptions=True)

    async def _discard(self, instance: Instance, failed: FailedStart) -> FailedStart:
        code = failed.exit_code
        if instance.process is not None:
            instance.process.kill_group()
            code = await instance.process.wait()
        await self.forget(instance)
        return structs.replace(failed, exit_code=code)

    def _instance(self, identity: str, port: int, nonce: str, secret: str) -> Instance:
        now = self._dependencies.now()
        return Instance(identity, self._workspace, (self._root,), port, nonce, secret, now)

    async def _save(self, instance: Instance) -> bool:
        pid, started = (instance.process.pid, instance.process.started) if instance.process else (0, "")
        row = InstanceRow(
            self._workspace, instance.id, pid, started, instance.nonce, instance.secret, instance.port
        )
        return await self._dependencies.store.save_instance(row)


def _process_from_health(body: bytes) -> process.Process | None:
    """The process behind a verified health answer, if the previous manager died before it saved the pid."""
    answer = launch.decode_health(body)
    if answer is None or answer.pid is None or answer.pid == os.getpid():
        return None
    started = start_time(answer.pid)
    return process.Process.adopt(answer.pid, started) if started is not None else None
