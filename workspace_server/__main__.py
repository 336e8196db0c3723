"""`python -I -m workspace_server`: one JSON line of orders on standard input, then serve until told to stop.

`-I` keeps the workspace's own files out of the import path. There are no options (see
`protocol.internal.launch`):
the word behind is for people who look at processes. One such word makes it the template of servers
(`fork_server.py`).
"""

from __future__ import annotations

import os
import sys

from protocol.names import FORK_SERVER_INSTANCE

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
        from workspace_server.process import main

    main()
