"""Problems of sources as the command line tells them."""

from __future__ import annotations

import pytest

from manager.status_reading.source_problems import shell_hint

SOURCE = {"id": "stdio:s", "state": "backoff", "lacking": ["SERVICE_TOKEN", "OTHER_TOKEN"]}


def test_a_variable_that_only_the_shell_has_comes_with_the_lines_to_add() -> None:
    assert shell_hint(SOURCE, {"SERVICE_TOKEN": "canary"}) == (
        "stdio:s asked for SERVICE_TOKEN, which this shell has and the manager has not: "
        'add "export SERVICE_TOKEN=…" to ~/.profile, run lmtb stop, '
        'and add to its entry: env = { SERVICE_TOKEN = "${SERVICE_TOKEN}" }'
    )


@pytest.mark.parametrize(
    ("source", "shell"),
    [
        (SOURCE, {"HOME": "/"}),
        ({**SOURCE, "state": "ready"}, {"SERVICE_TOKEN": "x"}),
        ({**SOURCE, "lacking": []}, {"SERVICE_TOKEN": "x"}),
        ({"id": "builtin", "state": "failed"}, {"SERVICE_TOKEN": "x"}),
    ],
)
def test_otherwise_nothing_is_said(source: dict[str, object], shell: dict[str, str]) -> None:
    assert shell_hint(source, shell) is None
