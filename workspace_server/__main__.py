"""`python -I -m workspace_server`: reads launch instructions from standard input, and serves until stopped.

`-I` keeps the workspace's own files out of the import path. There are no options (the launch instructions are
`lm_tools_bridge.protocol.internal.launch`); the argument identifies the instance in process lists. One
special argument makes the process the fork server (`fork_server.py`).
"""

from __future__ import annotations

import os
import sys

from lm_tools_bridge.protocol.names import FORK_SERVER_INSTANCE

# The descriptor of standard error (POSIX).
STDERR = 2


def _tidy_streams() -> None:
    """From the first moment nothing is written to standard output: what prints goes to standard error."""
    os.dup2(STDERR, 1)
    sys.stdout = sys.stderr


if __name__ == "__main__":
    _tidy_streams()
    if sys.argv[1:] == [FORK_SERVER_INSTANCE]:
        from workspace_server.fork_server import main
    else:
        from workspace_server.server_process import main

    main()
