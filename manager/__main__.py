"""`python -m manager`: the same command line as `lmtb`."""

from __future__ import annotations

from manager.cli import main

if __name__ == "__main__":
    main()
