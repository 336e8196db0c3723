"""Reads and writes `team.json`: the team of this user, what is offered to it and used of it. Blocks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec

from lm_tools_bridge.machine import private_files
from lm_tools_bridge.team.calls.exposure import Scope
from lm_tools_bridge.team.registry.entry import Kind, Policy

FILE_NAME: Final = "team.json"
_MAX_BYTES: Final = 256 * 1024
"""This program writes the file: a team and some hundred offers have tens of kilobytes."""


class OwnOffer(msgspec.Struct, frozen=True, rename="camel"):
    """Something that this user offers.

    Attributes:
        name: what members call it.
        root: the workspace's folder.
        kind: the whole workspace, or one MCP server of it.
        policy: which tools can be called.
        prefix: of the names of the server's tools.
        title: a line for people.
        digest: of its tools when it was offered.
        tools: how many these were.
        include: patterns (`fnmatch`, case-sensitive) of the names that members use; empty for all.
        exclude: patterns of those that are left out.
    """

    name: str
    root: str
    kind: Kind = "workspace"
    policy: Policy = "read-only"
    prefix: str = ""
    title: str = ""
    digest: str = ""
    tools: int = 0
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def scope(self) -> Scope:
        """What it exposes."""
        return Scope(self.kind, self.policy, self.prefix, self.include, self.exclude)


class Use(msgspec.Struct, frozen=True, rename="camel"):
    """An offer of others that this user uses. `hosts` are those that may get calls; None allows any."""

    offer: str
    namespace: str
    hosts: tuple[str, ...] | None = None


class Membership(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A team that this user joined. Credentials stay in their files; only paths are kept.

    Attributes:
        servers: URLs of NATS servers.
        name: of this host in the team.
        zone: hosts of the same zone are preferred.
        creds: a file with a JWT and an nkey seed.
        nkey: a file with an nkey seed.
        ca: a file of certificates to trust, for TLS.
        cert: the client's own certificate, for TLS.
        key: the key of `cert`.
        capacity: how many calls of others are answered at once.
        offers: what is offered; nothing at first.
        uses: what is used of others.
    """

    servers: tuple[str, ...]
    name: str
    zone: str = ""
    creds: str | None = None
    nkey: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    capacity: int = 32
    offers: tuple[OwnOffer, ...] = ()
    uses: tuple[Use, ...] = ()

    def offer(self, name: str) -> OwnOffer | None:
        """What is offered under a name."""
        return next((offer for offer in self.offers if offer.name == name), None)

    def use(self, offer: str) -> Use | None:
        """How an offer is used."""
        return next((use for use in self.uses if use.offer == offer), None)


class UnreadableMembership(Exception):
    """`team.json` cannot be used; the text says why."""


def load(config_dir: Path) -> Membership | None:
    """The membership; None if no team was joined.

    Raises:
        UnreadableMembership: the file is damaged, too large, or open to others.
    """
    path = config_dir / FILE_NAME
    try:
        content = private_files.read(path, _MAX_BYTES)
        return None if content is None else msgspec.json.decode(content, type=Membership)
    except private_files.UnsafePathError as error:
        raise UnreadableMembership(f"{error.path} {error.reason}; {error.hint}") from error
    except (OSError, msgspec.DecodeError) as error:
        raise UnreadableMembership(f"{path} cannot be read: {error}") from error


def store(config_dir: Path, membership: Membership) -> None:
    """Write the membership, readable by its user only.

    Raises:
        OSError: it cannot be written; the old file is untouched.
    """
    config_dir.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.format(msgspec.json.encode(membership), indent=2)
    private_files.write(config_dir / FILE_NAME, content + b"\n")


def create(config_dir: Path, membership: Membership) -> bool:
    """Write the first membership; whether there was none. One process at a time.

    Raises:
        UnreadableMembership: there is one that cannot be used.
        OSError: it cannot be written.
    """
    config_dir.mkdir(parents=True, exist_ok=True)
    with _locked(config_dir):
        if load(config_dir) is not None:
            return False
        store(config_dir, membership)
        return True


def remove(config_dir: Path) -> bool:
    """Forget the membership; whether there was one. One process at a time."""
    path = config_dir / FILE_NAME
    if not path.exists():
        return False
    with _locked(config_dir):
        existed = path.exists()
        path.unlink(missing_ok=True)
        return existed


def change(config_dir: Path, edit: Callable[[Membership], Membership]) -> Membership:
    """Change the membership, one process at a time.

    Raises:
        UnreadableMembership: there is none, or it cannot be used.
        OSError: it cannot be written.
    """
    if not (config_dir / FILE_NAME).exists():
        raise UnreadableMembership("no team was joined")
    with _locked(config_dir):
        held = load(config_dir)
        if held is None:
            raise UnreadableMembership("no team was joined")
        changed = edit(held)
        store(config_dir, changed)
        return changed


def _locked(config_dir: Path) -> AbstractContextManager[None]:
    return private_files.locked(config_dir / f".{FILE_NAME}.lock")
