"""Runs `lmtb` with fixed figures where it shows what differs from run to run, for pictures.

Everything else is the real program's.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Final

FIGURES: Final[dict[str, Any]] = {
    "pid": 4711,
    "port": 20001,
    "uptimeSec": 12,
    "rssBytes": 41_000_000,
    "cpuSec": 0.12,
    "managerMs": {"p50": 0.31, "p99": 1.9},
    "serverMs": {"p50": 2.1, "p99": 4.8},
    "lastSeenAgeSec": 1,
    "lastCallAgeSec": 1,
}
VERBS: Final = ("up", "status")
"""Those that only show what the manager says: others use its address and ports."""
WORKSPACE_ID: Final = "1b9843b90f93"


def fixed(value: Any) -> Any:
    """The value with fixed figures, and with texts as the documentation has them."""
    if isinstance(value, dict):
        return {
            key: FIGURES[key] if key in FIGURES and one is not None else fixed(one)
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [fixed(one) for one in value]
    return as_documented(value) if isinstance(value, str) else value


def as_documented(text: str) -> str:
    """The text with `~` for the home folder, the documented port, and the same workspace id in each run."""
    import re  # not before the program, which imports little

    text = text.replace(os.environ["HOME"], "~").replace(os.environ["LMTB_HTTP_PORT"], "47100")
    return re.sub(r"\bshop-[0-9a-f]{12}\b", f"shop-{WORKSPACE_ID}", text)


def main() -> None:
    """Run the program."""
    from manager.cli import main as lmtb
    from manager.client import Control

    get = Control.get
    if sys.argv[1] in VERBS:
        Control.get = lambda self, target: fixed(get(self, target))  # type: ignore[method-assign]  # that is what this is for
    lmtb()


if __name__ == "__main__":
    main()
