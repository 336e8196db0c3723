"""A `systemctl` that records its calls and remembers whether the service was enabled."""

from __future__ import annotations

import shutil
from pathlib import Path

FAKE = """#!/bin/sh
echo "$@" >> "{folder}/calls"
case "$*" in
*show-environment) if [ -e "{folder}/no-bus" ]; then echo "Failed to connect to bus" >&2; exit 1; fi ;;
*is-active*) if [ -e "{folder}/on" ]; then echo active; else echo inactive; exit 3; fi ;;
*is-enabled*) if [ -e "{folder}/on" ]; then echo enabled; else echo disabled; exit 1; fi ;;
*enable*--now*) if [ -e "{folder}/fails" ]; then echo "Job for unit failed." >&2; exit 1; fi
    case "$*" in *disable*) rm -f "{folder}/on" ;; *) : > "{folder}/on" ;; esac ;;
esac
"""


class Systemd:
    """A user's home and a recording `systemctl`."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.units = home / ".config" / "systemd" / "user"
        self.service = self.units / "lm-tools-bridge.service"
        self.socket = self.units / "lm-tools-bridge.socket"
        program = folder / "systemctl"
        program.write_text(FAKE.format(folder=folder))
        program.chmod(0o755)
        for name in ("sh", "rm"):
            (folder / name).symlink_to(shutil.which(name) or name)

    def mark(self, name: str) -> None:
        (self.folder / name).touch()

    def calls(self) -> list[str]:
        """What changed something."""
        file = self.folder / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if not any(word in line for word in ("is-", "show-environment"))]
