"""Owns the lines to other hosts, and finds the one that an address leads over.

Only hosts that the user has added are connected to: an address can come from a model or a web page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

from lm_tools_bridge.protocol.errors import Reason, Refusal
from lm_tools_bridge.remote_hosts.address import (
    Host,
    InvalidAddress,
    RemoteAddress,
    parse_address,
)
from lm_tools_bridge.remote_hosts.known_hosts import (
    InvalidHostsFile,
    KnownHost,
    find_entry,
    login_at,
    read_known_hosts,
)
from lm_tools_bridge.remote_hosts.link import Attends, Link
from lm_tools_bridge.remote_hosts.refusals import not_added
from lm_tools_bridge.remote_hosts.remote_supervisor import RemoteSupervisor
from lm_tools_bridge.remote_hosts.transports import tool_environment
from manager.supervision.dependencies import Dependencies


class Lines:
    """The lines to other hosts, and the addresses that lead to them.

    Args:
        dependencies: of supervision.
        config_dir: the folder of the file of hosts.
        runtime_dir: the folder of logins.
        attend: runs beside each line.
    """

    def __init__(
        self,
        dependencies: Dependencies,
        config_dir: Path | None,
        runtime_dir: Path | None,
        attend: Attends | None = None,
    ) -> None:
        self._attend = attend
        self._dependencies = dependencies
        self._line_dependencies = dependencies.with_environ(tool_environment(dependencies.environ))
        self._config_dir = config_dir
        self._runtime_dir = runtime_dir
        self._links: dict[Host, Link] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def __iter__(self) -> Iterator[Link]:
        return iter(self._links.values())

    async def address_of(self, text: str) -> tuple[RemoteAddress, Link] | Refusal | None:
        """The remote address that a text means, and the line to its host; None if it means none.

        Returns:
            The refusal if the address is wrong, or the user has not added its host.
        """
        hosts = await self._hosts()
        if isinstance(hosts, Refusal):
            return hosts
        address = parse_address(text, {name: entry.host for name, entry in hosts.items()})
        if address is None:
            return None
        if isinstance(address, InvalidAddress):
            details = {"problem": "malformed", "cwd": text[:200]}
            excerpt = text[:200].encode("utf-8", "replace").decode()
            message = f"cwd is malformed: {excerpt}: {address.problem}"
            return Refusal(Reason.INVALID_CWD, message, "correct the address", details=details)
        link = self._link(hosts, address.host)
        return link if isinstance(link, Refusal) else (address, link)

    async def supervisor(self, workspace: str, root: str) -> RemoteSupervisor | None:
        """What stands for the server of a known workspace with this root; None if the root is a local one."""
        address = parse_address(root, {})
        if not isinstance(address, RemoteAddress):
            return None
        return RemoteSupervisor(workspace, address, await self.link_to(address.host), self._dependencies)

    async def link_to(self, host: Host) -> Link | Refusal:
        """The line to a host; the refusal if the user has not added it."""
        hosts = await self._hosts()
        return hosts if isinstance(hosts, Refusal) else self._link(hosts, host)

    async def forget_removed(self) -> None:
        """Close the lines to hosts that the user has removed, or named or described anew."""
        hosts = await self._hosts()
        if not isinstance(hosts, Refusal):
            outdated = [
                host for host, link in self._links.items() if not _fits(link, find_entry(hosts, host))
            ]
            await asyncio.gather(*(self._links.pop(host).close() for host in outdated))

    async def close(self) -> None:
        """Close all lines."""
        await asyncio.gather(*(link.close() for link in self._links.values()), *self._closing)

    def _link(self, hosts: Mapping[str, KnownHost], host: Host) -> Link | Refusal:
        entry = find_entry(hosts, host)
        if entry is None:
            return not_added(host)
        link = self._links.get(host)
        if link is None or not _fits(link, entry):
            if link is not None:
                closing = asyncio.create_task(link.close(), name=f"close line to {host}")
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)
            link = Link(
                entry.name,
                host,
                entry.command,
                self._line_dependencies,
                control_path=lambda: self._login_of(host),
                attend=self._attend,
            )
            self._links[host] = link
        return link

    def _login_of(self, host: Host) -> str | None:
        if self._runtime_dir is None:
            return None
        path = login_at(self._runtime_dir, host)
        return None if path is None else str(path)

    async def _hosts(self) -> Mapping[str, KnownHost] | Refusal:
        if self._config_dir is None:
            return {}
        try:
            return await asyncio.to_thread(read_known_hosts, self._config_dir)
        except InvalidHostsFile as error:
            step = "ask the user to correct the file, or to run: lmtb remote list"
            return Refusal(Reason.HOST_NOT_ADDED, f"host not added: {error}", step, delivered="no")


def _fits(link: Link, entry: KnownHost | None) -> bool:
    return entry is not None and (link.name, link.command) == (entry.name, entry.command)
