"""What a process erases of its environment, no other process can read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from lm_tools_bridge.machine.processes.erased_environment import erase_values
erase_values(lambda name: name.startswith("LMTB_SECRET_"))
shown = open("/proc/self/environ", "rb").read()
print(b"hunter2" in shown, b"OTHER=stays" in shown, b"LMTB_SECRET_EMPTY=" in shown)
print(os.environ["LMTB_SECRET_A"], os.environ["LMTB_SECRET_B"], os.environ["OTHER"])
child = [sys.executable, "-c", "import os; print(os.environ['LMTB_SECRET_B'])"]
for environment in (dict(os.environ), None):
    print(subprocess.run(child, env=environment, capture_output=True, text=True).stdout)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is that of Linux")
def test_values_are_erased_where_other_programs_could_read_them_and_kept_for_us() -> None:
    given = {
        "LMTB_SECRET_A": "hunter2",
        "OTHER": "stays",
        "LMTB_SECRET_EMPTY": "",
        "LMTB_SECRET_B": "x=hunter2",
    }
    command = [sys.executable, "-I", "-c", PROGRAM, str(Path(__file__).parents[3])]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "False",
        "True",
        "True",
        "hunter2",
        "x=hunter2",
        "stays",
        *["x=hunter2"] * 2,
    ]
