"""Offers the service that starts the manager to a person who adds a client, and says what happens without it.

Most clients connect to an address, so that somebody has to start the manager after a reboot. Those whose
entry starts `lmtb connect` need nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from lm_tools_bridge.client_setup.clients import Client
from lm_tools_bridge.client_setup.entries import Endpoint
from lm_tools_bridge.terminal.command_line import Failure, say
from lm_tools_bridge.terminal.views import Note, Tone
from lm_tools_bridge.terminal.waiting import waiting
from manager.cli.output.manager_access import user_paths
from manager.cli.service import facts as service_facts
from manager.cli.service.facts import Facts
from manager.cli.service.plan import Plan, Refused, Supervisor, installation
from manager.cli.service.verb import carry_out
from manager.cli.stop import WatchedProcess
from manager.client import Control, ControlRefusal, ManagerFault, NoManager

_STOP_S: Final = 45.0
"""Longest wait for a manager that ends: its calls in flight may take 30 s."""
_PAUSE_S: Final = 0.05
"""Between two looks whether the manager has ended: a person notices no delay, and a look takes microseconds.
"""
_WITHOUT_MANAGER: Final = {"claude-code": "Claude Code has no tools until it runs"}
"""Measured; all other clients that were tried connect at their start only."""


class ServiceOffer:
    """One offer for all clients that a command adds.

    Args:
        wanted: what the command line says of the service; None if it says nothing.
        endpoint: where entries lead.
    """

    def __init__(self, wanted: bool | None, endpoint: Endpoint) -> None:
        self._wanted = wanted
        self._endpoint = endpoint
        self._facts: Facts | None = None

    def check(self) -> None:
        """Look at the machine once.

        Raises:
            Failure: the service was asked for and cannot be installed.
        """
        if self._wanted is False:
            return
        self._facts = service_facts.gather()
        if self._wanted and not self._is_installed and isinstance(plan := self._plan(), Refused):
            raise Failure(plan.message, plan.next_step, reason=plan.reason)

    def reason_to_ask(self, clients: Sequence[Client]) -> str | None:
        """Why these clients are better off with the service; None if it is not to be part of the question."""
        needing = [client for client in clients if needs_manager(client, self._endpoint)]
        if self._wanted is not None or not needing or isinstance(self._plan(), Refused):
            return None
        return f"{self._without(needing)}. A service starts it at login (lmtb service install)."

    def decide(self, *, is_wanted: bool) -> None:
        """Take the person's answer."""
        self._wanted = is_wanted

    def finish(self, clients: Sequence[Client]) -> None:
        """Install the service for clients that were added, or say what happens without it.

        Raises:
            Failure: it cannot be installed.
        """
        needing = [client for client in clients if needs_manager(client, self._endpoint)]
        if self._is_installed or not needing or self._facts is None:
            return
        plan = self._plan()
        if self._wanted and isinstance(plan, Plan):
            self._install()
            return
        step = "lmtb up" if isinstance(plan, Refused) else "lmtb up; at each login: lmtb service install"
        say(f"note: {self._without(needing)}. To start it: {step}")

    def _without(self, clients: Sequence[Client]) -> str:
        fates = [
            _WITHOUT_MANAGER.get(client.id, f"{client.title} has no tools for the whole session")
            for client in clients
        ]
        return f"Nothing starts the manager after a reboot, and without it {', '.join(fates)}"

    @property
    def _is_installed(self) -> bool:
        return self._facts is not None and bool(self._facts.seen.found or self._facts.seen.is_enabled)

    def _plan(self) -> Plan | Refused:
        """What an installation would do once a manager that runs in the background has ended."""
        if self._facts is None or self._is_installed:
            return Refused("", "", "not_offered")
        situation, status = self._facts.seen, self._facts.status
        if situation.supervisor is not Supervisor.SYSTEMD and not self._wanted:
            return Refused("", "", "not_offered")  # on macOS it was never tried
        if situation.ignored:
            text = f"set in this shell, but not for a service: {', '.join(situation.ignored)}"
            return Refused(text, "put these settings into config.toml", "configuration")
        if status is not None and status.get("startedBy") == "background":
            situation = replace(situation, manager=None, port_holder=None)
        return installation(situation)

    def _install(self) -> None:
        if self._facts is not None and self._facts.status is not None:
            _end_manager(self._facts.status)
        plan = installation(service_facts.gather().seen)
        if isinstance(plan, Refused):
            raise Failure(plan.message, plan.next_step, reason=plan.reason)
        carry_out(plan)
        say(Note("the service is installed: the manager starts at login", Tone.GOOD))
        for note in plan.notes:
            say(f"note: {note}")


def needs_manager(client: Client, endpoint: Endpoint) -> bool:
    """Whether a client's entry is an address, so that somebody else has to start the manager."""
    return "command" not in client.entry(endpoint)


def _end_manager(status: dict[str, Any]) -> None:
    """End the manager in the background; its servers and sessions go on with the service's."""
    process = WatchedProcess(int(status["pid"]))
    try:
        Control(user_paths().control_socket).post("/shutdown", {"reason": "service", "keepServers": True})
    except (NoManager, ManagerFault, ControlRefusal) as error:
        raise Failure(f"the running manager does not end: {error}", "lmtb stop --keep-servers") from error
    deadline = time.monotonic() + _STOP_S
    with waiting("the service takes over from the running manager"):
        while not process.is_gone():
            if time.monotonic() > deadline:
                text = f"the manager (pid {process.pid}) is still running after {_STOP_S:g} s"
                raise Failure(text, "wait, then: lmtb service install", reason="still_running")
            time.sleep(_PAUSE_S)
