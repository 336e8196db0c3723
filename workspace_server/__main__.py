"""`python -I -m workspace_server`: one JSON line of orders on standard input, then serve until told to stop.

`-I` keeps the workspace's own files out of the import path. There are no options: see `protocol.launch`.
"""

from __future__ import annotations

import os
import sys

STDERR = 2


def _tidy_streams() -> None:
    """From the first moment nothing is written to standard output: what prints goes to standard error."""
    os.dup2(STDERR, 1)
    sys.stdout = sys.stderr


if __name__ == "__main__":
    _tidy_streams()
    from workspace_server.process import main

    main()
