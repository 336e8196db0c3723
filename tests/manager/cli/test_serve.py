"""The collector looks at less, and less often, once the manager is up."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from manager.cli import serve
serve.pause_collector()
print(gc.isenabled())
kept = [[] for _ in range(1000)]
lost = []; lost.append(lost); del lost
serve.resume_collector()
print(gc.isenabled(), gc.get_freeze_count() > 1000, gc.get_threshold() == serve.COLLECTOR_THRESHOLDS)
print(any(one is kept for one in gc.get_objects()))
"""


def test_what_is_there_is_never_looked_at_again_and_collecting_goes_on() -> None:
    said = subprocess.run([sys.executable, "-I", "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", "True", "True", "True", "False"]
