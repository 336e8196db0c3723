"""The agent looks for the manager at the port that the user's manager is configured to have."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.agent.settings.manager_address import manager_endpoint
from lm_tools_bridge.agent.settings.settings import default

DEFAULT = default("endpoint")


@pytest.mark.parametrize(
    ("text", "variable", "endpoint"),
    [
        (None, None, DEFAULT),
        ("http_port = 47111", None, "http://127.0.0.1:47111/mcp"),
        ("http_port = 47111", "47222", "http://127.0.0.1:47222/mcp"),
        (None, "47222", "http://127.0.0.1:47222/mcp"),
        ("http_port = 0", None, DEFAULT),
        ("http_port = 47111", "0", DEFAULT),
        ("http_port = 47111", "nonsense", "http://127.0.0.1:47111/mcp"),
        ("http_port = true", None, DEFAULT),
        ("http_port = 99999", None, DEFAULT),
        ("http_port = ", None, DEFAULT),
        ("\0", None, DEFAULT),
    ],
)
def test_the_endpoint_has_the_port_of_the_users_manager(
    tmp_path: Path, text: str | None, variable: str | None, endpoint: str
) -> None:
    file = tmp_path / "config.toml"
    if text is not None:
        file.write_text(text)
    environ = {} if variable is None else {"LMTB_HTTP_PORT": variable}
    assert manager_endpoint(file, environ) == endpoint
