"""Tests of the rendered service files; tests/test_systemd_units.py shows them to systemd."""

from __future__ import annotations

import plistlib

import pytest

from manager.cli.service.service_manager import SERVICE, SOCKET, launchd_plist, shipped_units, systemd_units


def values(text: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in text.splitlines() if line.startswith(f"{key}=")]


def test_units_run_this_program_on_this_port() -> None:
    made = systemd_units(shipped_units(), ["/opt/venv/bin/lm-tools-bridge"], 47123)
    assert values(made[SERVICE], "ExecStart") == ["/opt/venv/bin/lm-tools-bridge serve"]
    assert values(made[SOCKET], "ListenStream") == ["127.0.0.1:47123"]


def test_units_differ_from_the_shipped_ones_in_these_two_lines_only() -> None:
    shipped, made = shipped_units(), systemd_units(shipped_units(), ["/p"], 1)
    changed = [
        line
        for name in shipped
        for line, old in zip(made[name].splitlines(), shipped[name].splitlines(), strict=True)
        if line != old
    ]
    assert sorted(changed) == ["ExecStart=/p serve", "ListenStream=127.0.0.1:1"]


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/plain/path-1.2_x@y", "/plain/path-1.2_x@y"),
        ("/a b", '"/a b"'),
        ("/100%", '"/100%%"'),
        ("/$HOME", '"/$$HOME"'),
        ('/q"', '"/q\\""'),
        ("/b\\s", '"/b\\\\s"'),
        ("/it's", '"/it\'s"'),
    ],
)
def test_words_are_quoted_as_systemd_reads_them(word: str, written: str) -> None:
    made = systemd_units(shipped_units(), ["/p", word], 1)
    assert values(made[SERVICE], "ExecStart") == [f"/p {written} serve"]


@pytest.mark.parametrize("path", ['/q"', "/b\\s", "/$HOME", "/it's"])
def test_program_whose_path_systemd_refuses_is_started_by_env(path: str) -> None:
    made = systemd_units(shipped_units(), [path], 1)
    assert values(made[SERVICE], "ExecStart")[0].startswith("/usr/bin/env ")


def test_launchd_job_starts_at_login_and_not_after_an_orderly_stop() -> None:
    job = plistlib.loads(launchd_plist(["/venv/bin/lm-tools-bridge"], "/logs/manager.log"))
    assert job["ProgramArguments"] == ["/venv/bin/lm-tools-bridge", "serve"]
    assert job["RunAtLoad"] is True
    assert job["KeepAlive"] == {"SuccessfulExit": False}
    assert job["StandardErrorPath"] == "/logs/manager.log"
