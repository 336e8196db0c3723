"""A workspace and a user's folder with configuration files."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workspace_server.config.load import ConfigurationLoader
from workspace_server.config.model import Configuration

ENVIRON = {"HOME": "/home/ada", "TOKEN": "s3cret", "EMPTY": ""}


class ConfigHome:
    """Writes configuration files and reads the configuration that follows from them."""

    def __init__(self, folder: Path, environ: Mapping[str, str] = ENVIRON, **options: Any) -> None:
        self.root = folder / "proj"
        self.user_dir = folder / "config"
        self.root.mkdir()
        self.user_dir.mkdir()
        self.configurations = ConfigurationLoader(self.root, self.user_dir, environ, **options)

    @property
    def user_file(self) -> Path:
        return self.user_dir / "workspace.toml"

    @property
    def own_file(self) -> Path:
        return self.root / ".lm-tools-bridge" / "workspace.toml"

    def user(self, text: str) -> Path:
        self.user_file.write_text(text)
        return self.user_file

    def workspace(self, text: str) -> Path:
        return self.put(".lm-tools-bridge/workspace.toml", text)

    def put(self, name: str, content: str | Mapping[str, Any]) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    def current(self) -> Configuration:
        return self.configurations.current()

    def codes(self) -> list[str]:
        return [issue.code for issue in self.current().issues]


def later() -> int:
    """A time of day at which every file of a test has settled."""
    return time.time_ns() + 3600 * 10**9
