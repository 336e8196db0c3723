"""Decides what `lmtb service` does, from facts that were read before: a pure table of cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from manager.cli.service.service_manager import LABEL, SERVICE, SOCKET

_CTL: Final = ("systemctl", "--user")
Command = tuple[str, ...]


class Supervisor(StrEnum):
    """What can start the manager at login."""

    SYSTEMD = "systemd"
    NO_USER_SYSTEMD = "systemd without a user manager"
    LAUNCHD = "launchd"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Situation:
    """What was found.

    Attributes:
        supervisor: what can start the manager here.
        is_temporary: the program is in a cache that may be emptied, as after `uvx`.
        port: the configured port, or why the configuration cannot be used.
        wanted: the files of the service, with their contents for this program.
        found: the contents of those of them that exist.
        links: links that enable the service and exist, for where nothing can be asked to remove them.
        is_active: the supervisor holds the port or runs the manager.
        is_enabled: the supervisor starts it at login.
        manager: a manager that runs, for people; None if none does.
        port_holder: who else has the port, for people; None if it is free.
        ignored: names of variables of this environment that the service will not have.
        user: the user's number.
    """

    supervisor: Supervisor
    is_temporary: bool
    port: int | str
    wanted: Mapping[Path, bytes]
    found: Mapping[Path, bytes]
    links: tuple[Path, ...] = ()
    is_active: bool = False
    is_enabled: bool = False
    manager: str | None = None
    port_holder: str | None = None
    ignored: tuple[str, ...] = ()
    user: int = 0


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing will be done: why, the next step, and a word for programs."""

    message: str
    next_step: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done, in this order.

    Attributes:
        before: commands that run first.
        writes: files to write, with their contents.
        removals: files to remove.
        after: commands that run last.
        notes: what the user should know.
    """

    before: tuple[Command, ...] = ()
    writes: tuple[tuple[Path, bytes], ...] = ()
    removals: tuple[Path, ...] = ()
    after: tuple[Command, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.before or self.writes or self.removals or self.after)


def installation(situation: Situation) -> Plan | Refused:
    """What `lmtb service install` does."""
    if refused := _no_supervisor(situation) or _not_startable(situation) or _port_conflict(situation):
        return refused
    writes = tuple(
        (path, text) for path, text in situation.wanted.items() if situation.found.get(path) != text
    )
    if not writes and situation.is_active and situation.is_enabled:
        return Plan(notes=("the service is already installed and active",))
    if situation.supervisor is Supervisor.LAUNCHD:
        return _for_launchd(situation, writes)
    notes = [
        "it starts at login and ends after your last logout; to keep it running: loginctl enable-linger",
        "servers get the PATH of systemd; to give them yours: systemctl --user import-environment PATH",
    ]
    if writes and situation.is_active:
        both = f"{SOCKET} {SERVICE}"
        notes.append(
            f"the old units stay in effect until: systemctl --user stop {both}; systemctl --user start {both}"
        )
    return Plan(
        writes=writes,
        after=((*_CTL, "daemon-reload"), (*_CTL, "enable", "--now", SOCKET, SERVICE)),
        notes=(*notes, *_ignored(situation)),
    )


def removal(situation: Situation) -> Plan:
    """What `lmtb service uninstall` does; it works also where nothing can be asked to stop the service."""
    files = tuple(situation.found)
    if not (files or situation.links):
        return Plan(notes=("no service is installed",))
    if situation.supervisor is Supervisor.LAUNCHD:
        return Plan(before=(("launchctl", "bootout", f"gui/{situation.user}/{LABEL}"),), removals=files)
    if situation.supervisor is Supervisor.SYSTEMD:
        return Plan(
            before=((*_CTL, "disable", "--now", SOCKET, SERVICE),),
            removals=files,
            after=((*_CTL, "daemon-reload"),),
        )
    note = "systemd cannot be asked here: the files are removed, but nothing is stopped"
    return Plan(removals=(*situation.links, *files), notes=(note,))


def _no_supervisor(situation: Situation) -> Refused | None:
    if situation.supervisor is Supervisor.NONE:
        text = "there is no systemd here, as in most containers, so there is nothing to install"
        return Refused(text, "start the manager in the background with: lmtb up", "no_service_manager")
    if situation.supervisor is Supervisor.NO_USER_SYSTEMD:
        text = "systemd is installed, but has no manager for this user (a container, or a shell after su)"
        step = "log in as this user and try again, or start the manager with: lmtb up"
        return Refused(text, step, "no_service_manager")
    return None


def _not_startable(situation: Situation) -> Refused | None:
    if situation.is_temporary:
        text = "this program is in a cache that may be emptied at any time; a service would break"
        return Refused(
            text, "install it (uv tool install, pipx install), then try again", "temporary_program"
        )
    if isinstance(situation.port, str):
        return Refused(f"the configuration cannot be used: {situation.port}", "correct it", "configuration")
    if situation.port == 0:
        return Refused("http_port is 0, but a service needs a fixed port", "set http_port", "configuration")
    return None


def _port_conflict(situation: Situation) -> Refused | None:
    if situation.is_active:
        return None
    if situation.manager is not None:
        text = f"a manager that is no service is already running: {situation.manager}"
        return Refused(text, "lmtb stop --keep-servers, then: lmtb service install", "already_running")
    if situation.port_holder is not None:
        step = "end that program, or choose another http_port in config.toml"
        return Refused(situation.port_holder, step, "port_taken")
    return None


def _for_launchd(situation: Situation, writes: tuple[tuple[Path, bytes], ...]) -> Plan:
    domain = f"gui/{situation.user}"
    (plist,) = situation.wanted
    before: tuple[Command, ...] = (
        (("launchctl", "bootout", f"{domain}/{LABEL}"),) if situation.is_active else ()
    )
    note = "this was never tried on macOS: if it fails, run lmtb up instead"
    after = (("launchctl", "bootstrap", domain, str(plist)),)
    return Plan(before=before, writes=writes, after=after, notes=(note, *_ignored(situation)))


def step_after_failure(command: Command) -> str:
    """Where a person reads why a command of the plan failed."""
    if command[0] == "launchctl":
        domain = next(word for word in command if word.startswith("gui/")).partition("/lm-")[0]
        return f"read why with: launchctl print {domain}/{LABEL}"
    return f"read why with: journalctl --user -u {SERVICE} -n 20"


def _ignored(situation: Situation) -> tuple[str, ...]:
    if not situation.ignored:
        return ()
    names = ", ".join(situation.ignored)
    return (f"set in this shell, but not for the service: {names}; settings for it go into config.toml",)
