"""What does not run where Linux is hidden (`hidden_linux.py`), with the reason: the only exceptions of `--portable`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

OPTION = "--portable"
ROOT = Path(__file__).resolve().parents[2]
IS_HIDDEN = sys.platform == "darwin" and Path("/proc/self").exists()
_LOADS = "counts imports, and the hiding has imported some"
_SYSTEMD = "plays systemd, which is of Linux"
_WAITID = "asks os.waitid itself"
_PROC = "reads /proc itself"
NOT_HERE = {
    "tests/manager/cli/output/test_overview.py::test_it_imports_not_even_click": _LOADS,
    "tests/manager/cli/service/test_verb.py": _SYSTEMD,
    "tests/manager/cli/test_cli.py::test_connect_is_there_without_the_large_libraries": _LOADS,
    "tests/manager/cli/test_cli.py::test_short_verbs_import_nothing_slow": _LOADS,
    "tests/manager/stdio_bridge/test_manager_start.py::test_an_existing_systemd_service_is_preferred": _SYSTEMD,
    "tests/manager/supervision/test_process.py::test_a_process_without_owner": _WAITID,
    "tests/manager/supervision/test_process.py::test_a_start_time_distinguishes_processes": _WAITID,
    "tests/manager/supervision/test_process.py::test_an_exit_is_seen_before": _WAITID,
    "tests/manager/supervision/test_supervisor.py::test_a_killed_server_is_replaced": _WAITID,
    "tests/lm_tools_bridge/machine/test_project_file.py::test_no_descriptor_stays_open": _PROC,
    "tests/workspace_server/files/test_file_gate.py::test_no_descriptor_stays_open": _PROC,
    "tests/workspace_server/files/test_file_gate.py::test_whatever_leads_to_another_file": _PROC,
    "tests/workspace_server/internal_channel/test_no_leak.py::test_a_secret_appears_in_the_answer_only": _PROC,
    "tests/manager/test_runtime_tuning.py": "asks glibc, which is of Linux",
}
"""Beginnings of the ids of tests, and why these cannot run. What the product lacks there does not belong here."""


def add_option(parser: pytest.Parser) -> None:
    """The option that `scripts/test` takes."""
    help_text = "test without what only Linux has; scripts/test runs it with the interpreter that hides it"
    parser.addoption(OPTION, action="store_true", help=help_text)


def require_hidden(config: pytest.Config) -> None:
    """Refuse to test with Linux in sight what was asked for without."""
    if config.getoption(OPTION) and not IS_HIDDEN:
        raise pytest.UsageError(
            f"{OPTION} needs the interpreter of scripts/portable-environment: scripts/test {OPTION}"
        )


def skip_what_cannot_run(items: list[pytest.Item]) -> None:
    """Skip the exceptions with their reasons."""
    if not IS_HIDDEN:
        return
    for item in items:
        name = item.path.relative_to(ROOT).as_posix() + "::" + item.nodeid.partition("::")[2]
        reason = next((why for start, why in NOT_HERE.items() if name.startswith(start)), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
