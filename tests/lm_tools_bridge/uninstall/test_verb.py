"""`lmtb uninstall` where the service is installed; process/lifecycle/test_uninstall.py has real managers."""

from __future__ import annotations

from typing import Any

from support.processes.installations.fake_systemd import Systemd


def test_service_is_removed_with_everything_else(systemd: Systemd, run: Any) -> None:
    assert run("service", "install", "--yes").exit_code == 0
    done = run("uninstall", "--yes")
    assert done.exit_code == 0, done.output
    assert f"remove {systemd.service}" in done.output
    assert list(systemd.units.iterdir()) == []
    assert "--user disable --now lm-tools-bridge.socket lm-tools-bridge.service" in systemd.calls()


def test_service_stays_where_it_is_not_chosen(systemd: Systemd, run: Any) -> None:
    assert run("service", "install", "--yes").exit_code == 0
    before = systemd.calls()
    done = run("uninstall", input="n\n")
    assert done.exit_code == 0, done.output
    assert systemd.service.exists()
    assert systemd.calls() == before
    assert f"the service: {systemd.units}" in done.output.partition("what remains:")[2]


def test_a_question_that_nobody_can_answer_names_the_option_that_answers_it(
    systemd: Systemd, run: Any
) -> None:
    assert run("service", "install", "--yes").exit_code == 0
    for verb in ("uninstall",), ("service", "uninstall"):
        done = run(*verb, input="")
        assert done.exit_code == 1
        assert "nobody answered" in done.output
        assert "repeat it with --yes" in done.output
    assert systemd.service.exists()
