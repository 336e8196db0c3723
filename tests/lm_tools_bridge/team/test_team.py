"""A manager without a team: nothing is loaded, nothing answers."""

from __future__ import annotations

import subprocess
import sys


def test_a_manager_without_a_team_loads_nothing_of_it() -> None:
    program = (
        "import sys, manager.daemon\nfrom pathlib import Path\nfrom types import SimpleNamespace\n"
        "from manager.features import DaemonStart, make_parts\n"
        "paths = SimpleNamespace(config_dir=Path('/x'), runtime_dir=Path('/x'))\n"
        "make_parts(DaemonStart(None, paths, 'http://127.0.0.1:1/mcp'))\n"
        "print(*[name for name in sys.modules if name.startswith(('nats', 'nkeys', 'nacl', 'lm_tools_bridge.team'))])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == [
        "lm_tools_bridge.team", "lm_tools_bridge.team.feature", "lm_tools_bridge.team.team",
    ]  # fmt: skip
