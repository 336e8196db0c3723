"""Runs `python -I -m lm_tools_bridge.agent`, which `lmtb agent` does in its place."""

from __future__ import annotations

import gc
import sys

from lm_tools_bridge.agent.command_line.arguments import read_arguments
from lm_tools_bridge.machine.own_process import erase_values
from lm_tools_bridge.text.harmless_variables import is_harmless


def main() -> int:
    """Run what the arguments ask for; the exit code."""
    # the model's commands read what the kernel shows of their parent
    erase_values(lambda name: not is_harmless(name))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # what a terminal cannot show must not end the program
            stream.reconfigure(errors="backslashreplace")
    arguments = read_arguments(sys.argv[1:])
    gc.disable()  # loading makes no garbage, and the prompt is there a fifth earlier; see `SessionLoop`
    from lm_tools_bridge.agent.command_line import verbs  # usage errors need none of it

    return verbs.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
