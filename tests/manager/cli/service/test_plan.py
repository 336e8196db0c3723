"""Tests of the decisions of the service verbs, as tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from manager.cli.service.plan import (
    Plan,
    Refused,
    Situation,
    Supervisor,
    installation,
    removal,
    step_after_failure,
)

SOCKET, SERVICE = Path("/u/lm-tools-bridge.socket"), Path("/u/lm-tools-bridge.service")
PLIST = Path("/l/lm-tools-bridge.plist")
WANTED = {SOCKET: b"socket", SERVICE: b"service"}
FRESH = Situation(supervisor=Supervisor.SYSTEMD, is_temporary=False, port=47100, wanted=WANTED, found={})
INSTALLED = replace(FRESH, found=WANTED, is_active=True, is_enabled=True, manager="pid 1")
RELOAD = ("systemctl", "--user", "daemon-reload")
ENABLE = ("systemctl", "--user", "enable", "--now", SOCKET.name, SERVICE.name)
DISABLE = ("systemctl", "--user", "disable", "--now", SOCKET.name, SERVICE.name)


def plan(seen: Situation) -> Plan:
    decided = installation(seen)
    assert isinstance(decided, Plan)
    return decided


@pytest.mark.parametrize(
    ("seen", "reason", "step"),
    [
        (replace(FRESH, supervisor=Supervisor.NONE), "no_service_manager", "lmtb up"),
        (replace(FRESH, supervisor=Supervisor.NO_USER_SYSTEMD), "no_service_manager", "lmtb up"),
        (replace(FRESH, is_temporary=True), "temporary_program", "uv tool install"),
        (replace(FRESH, port="http_port: wrong"), "configuration", "correct it"),
        (replace(FRESH, port=0), "configuration", "http_port"),
        (replace(FRESH, manager="pid 7"), "already_running", "lmtb stop --keep-servers"),
        (replace(FRESH, port_holder="127.0.0.1:47100 is taken"), "port_taken", "http_port"),
        # what cannot be changed by the user comes before what can
        (replace(FRESH, supervisor=Supervisor.NONE, manager="pid 7"), "no_service_manager", "lmtb up"),
        (replace(FRESH, manager="pid 7", port_holder="taken"), "already_running", "lmtb stop"),
    ],
)
def test_installation_is_refused_with_a_next_step(seen: Situation, reason: str, step: str) -> None:
    refused = installation(seen)
    assert isinstance(refused, Refused)
    assert refused.reason == reason
    assert step in refused.next_step


def test_first_installation_writes_both_units_and_starts_them() -> None:
    decided = plan(FRESH)
    assert decided.writes == tuple(WANTED.items())
    assert decided.after == (RELOAD, ENABLE)
    assert (decided.before, decided.removals) == ((), ())


def test_second_installation_does_nothing() -> None:
    decided = plan(INSTALLED)
    assert decided.is_empty
    assert decided.notes == ("the service is already installed and active",)


def test_installed_but_stopped_service_is_started_again() -> None:
    decided = plan(replace(INSTALLED, is_active=False, manager=None))
    assert (decided.writes, decided.after) == ((), (RELOAD, ENABLE))


def test_only_changed_files_are_written() -> None:
    """The service itself holds its port, which is no conflict."""
    decided = plan(replace(INSTALLED, found={SOCKET: b"socket", SERVICE: b"old"}))
    assert decided.writes == ((SERVICE, b"service"),)
    assert any("the old units stay in effect" in note for note in decided.notes)


def test_settings_of_the_shell_that_the_service_lacks_are_named() -> None:
    notes = plan(replace(FRESH, ignored=("LMTB_HTTP_PORT",))).notes
    assert any("LMTB_HTTP_PORT" in note and "config.toml" in note for note in notes)


def test_launchd_job_is_written_and_said_to_be_untested() -> None:
    mac = replace(FRESH, supervisor=Supervisor.LAUNCHD, wanted={PLIST: b"job"}, user=501)
    decided = plan(mac)
    assert decided.writes == ((PLIST, b"job"),)
    assert decided.after == (("launchctl", "bootstrap", "gui/501", str(PLIST)),)
    assert "never tried on macOS" in decided.notes[0]
    assert removal(replace(mac, found={PLIST: b"job"})) == Plan(
        before=(("launchctl", "bootout", "gui/501/lm-tools-bridge"),), removals=(PLIST,)
    )


def test_removal_stops_the_service_before_it_removes_its_files() -> None:
    assert removal(INSTALLED) == Plan(before=(DISABLE,), removals=(SOCKET, SERVICE), after=(RELOAD,))


def test_removal_without_systemd_removes_files_and_links() -> None:
    link = Path("/u/sockets.target.wants/lm-tools-bridge.socket")
    seen = replace(INSTALLED, supervisor=Supervisor.NO_USER_SYSTEMD, links=(link,), is_active=False)
    decided = removal(seen)
    assert decided.removals == (link, SOCKET, SERVICE)
    assert (decided.before, decided.after) == ((), ())


def test_removal_of_what_is_not_installed_does_nothing() -> None:
    assert removal(FRESH) == Plan(notes=("no service is installed",))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("launchctl", "bootstrap", "gui/501", "/x.plist"), "launchctl print gui/501/lm-tools-bridge"),
        (("launchctl", "bootout", "gui/501/lm-tools-bridge"), "launchctl print gui/501/lm-tools-bridge"),
        (("systemctl", "--user", "daemon-reload"), "journalctl --user -u lm-tools-bridge.service -n 20"),
    ],
)
def test_a_failure_names_the_log_of_the_system_that_failed(command: tuple[str, ...], words: str) -> None:
    assert step_after_failure(command) == f"read why with: {words}"
