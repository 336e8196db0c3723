"""A manager without a team: nothing is loaded, nothing answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_manager_without_a_team_loads_nothing_of_it(tmp_path: Path) -> None:
    program = (
        "import sys, manager.daemon\n"
        "from manager.configuration.paths import Paths\nfrom manager.configuration.settings import Settings\n"
        "from manager.features import DaemonStart, make_parts\n"
        f"paths = Paths.of_user({{'HOME': {str(tmp_path)!r}}})\n"
        "make_parts(DaemonStart(Settings(), paths, 'http://127.0.0.1:1/mcp'))\n"
        "print(*[name for name in sys.modules if name.startswith(('nats', 'nkeys', 'nacl', 'lm_tools_bridge.team'))])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == [
        "lm_tools_bridge.team", "lm_tools_bridge.team.feature", "lm_tools_bridge.team.team",
    ]  # fmt: skip
