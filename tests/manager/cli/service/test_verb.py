"""Tests of `lmtb service` with a `systemctl` on the PATH that records its calls."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from manager import __version__
from manager.cli.service.facts import program_command
from manager.configuration.paths import Paths
from support.processes.installations.fake_systemd import Systemd


def test_install_writes_units_for_this_program_and_starts_them(systemd: Systemd, run: Any, port: int) -> None:
    done = run("service", "install", "--yes")
    assert done.exit_code == 0, done.output
    (program,) = program_command()
    assert f"ExecStart={program} serve" in systemd.service.read_text()
    assert f"ListenStream=127.0.0.1:{port}" in systemd.socket.read_text()
    assert systemd.service.stat().st_mode & 0o777 == 0o644
    assert systemd.calls() == [
        "--user daemon-reload",
        "--user enable --now lm-tools-bridge.socket lm-tools-bridge.service",
    ]
    assert f"write {systemd.service}" in done.output
    assert sorted(one.name for one in systemd.units.iterdir()) == [systemd.service.name, systemd.socket.name]


def test_install_asks_first_and_does_nothing_without_a_yes(systemd: Systemd, run: Any) -> None:
    done = run("service", "install", input="n\n")
    assert done.exit_code == 1
    assert f"write {systemd.socket}" in done.output
    assert not systemd.units.exists()
    assert systemd.calls() == []


def test_with_json_nothing_is_asked_and_the_plan_is_printed(systemd: Systemd, run: Any) -> None:
    refused = json.loads(run("service", "install", "--json").stdout)
    assert (refused["ok"], refused["error"]["reason"]) == (False, "not_confirmed")
    assert systemd.calls() == []
    done = json.loads(run("service", "install", "--json", "--yes").stdout)
    assert done.keys() == {"ok", "result", "written", "removed", "commands", "notes"}
    assert str(systemd.service) in done["written"]
    removed = json.loads(run("service", "uninstall", "--json", "--yes").stdout)
    assert removed["result"] == "done" and str(systemd.service) in removed["removed"]


def test_second_install_changes_nothing(systemd: Systemd, run: Any) -> None:
    run("service", "install", "--yes")
    before = systemd.calls()
    done = run("service", "install")
    assert (done.exit_code, done.output) == (0, "the service is already installed and active\n")
    assert systemd.calls() == before


def test_uninstall_stops_the_service_and_removes_what_was_written(systemd: Systemd, run: Any) -> None:
    run("service", "install", "--yes")
    done = run("service", "uninstall", "--yes")
    assert done.exit_code == 0, done.output
    assert list(systemd.units.iterdir()) == []
    assert systemd.calls()[2:] == [
        "--user disable --now lm-tools-bridge.socket lm-tools-bridge.service",
        "--user daemon-reload",
    ]
    assert run("service", "uninstall").output == "no service is installed\n"


def test_failed_start_is_reported_with_the_next_step(systemd: Systemd, run: Any) -> None:
    systemd.mark("fails")
    done = run("service", "install", "--yes")
    assert done.exit_code == 1
    assert "Job for unit failed." in done.output
    assert "Next step: read why with: journalctl --user -u lm-tools-bridge.service" in done.output


def test_machine_without_systemd_is_told_to_use_up(systemd: Systemd, run: Any) -> None:
    (systemd.folder / "systemctl").unlink()
    done = run("service", "install", "--yes")
    assert done.exit_code == 1
    assert "there is no systemd here" in done.output
    assert "lmtb up" in done.output
    assert not systemd.units.exists()


def test_systemd_without_a_manager_for_the_user_is_told_apart(systemd: Systemd, run: Any) -> None:
    systemd.mark("no-bus")
    done = run("service", "install", "--yes")
    assert done.exit_code == 1
    assert "has no manager for this user" in done.output
    assert not systemd.units.exists()


def test_port_of_another_program_is_told_before_anything_is_written(
    systemd: Systemd, run: Any, port: int
) -> None:
    with socket.create_server(("127.0.0.1", port)):
        done = run("service", "install", "--yes")
    assert done.exit_code == 1
    assert f"127.0.0.1:{port} is taken: another program listens on it" in done.output
    assert not systemd.units.exists()


def test_running_manager_is_told_before_anything_is_written(
    systemd: Systemd, run: Any, serve_control: Any
) -> None:
    serve_control(Paths.of_user(), {"pid": 77, "version": "0.0.1", "address": "http://127.0.0.1:9/mcp"})
    done = run("service", "install", "--yes")
    assert done.exit_code == 1
    assert "already running: pid 77, at http://127.0.0.1:9/mcp, version 0.0.1" in done.output
    assert "lmtb stop --keep-servers" in done.output
    assert not systemd.units.exists()


def test_status_follows_installation_and_version(systemd: Systemd, run: Any, serve_control: Any) -> None:
    assert "no; install it with: lmtb service install" in run("service", "status").output
    run("service", "install", "--yes")
    assert f"in {systemd.units}, for this program" in run("service", "status").output
    fake = serve_control(
        Paths.of_user(), {"pid": 77, "version": "0.0.1", "address": "http://127.0.0.1:9/mcp"}
    )
    other = run("service", "status").output
    assert f"0.0.1, but this program is {__version__}" in other
    assert "to change over: lmtb restart" in other
    fake.say("GET /status", {"pid": 77, "version": __version__, "address": "a"})
    said = json.loads(run("service", "status", "--json").output)
    expected = {"installed": True, "current": True, "enabled": True, "active": True, "sameVersion": True}
    assert {name: said[name] for name in expected} == expected
    systemd.service.write_text("old")
    assert "renew it with: lmtb service install" in run("service", "status").output


def test_settings_of_the_shell_are_said_not_to_count(
    systemd: Systemd, run: Any, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setenv("LMTB_HTTP_PORT", "1")
    done = run("service", "install", "--yes")
    assert "not for the service: LMTB_HTTP_PORT" in done.output
    assert f"ListenStream=127.0.0.1:{port}" in systemd.socket.read_text()
