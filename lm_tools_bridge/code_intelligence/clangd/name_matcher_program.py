"""The program behind `name_matching.py`: matches names with a regular expression until it is killed.

It runs as a script (`python -I name_matcher_program.py`) and imports only the standard library. It reads
`{pattern, names}` as JSON from standard input, and writes `{matching: [index, …]}` or `{error, position}`.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from typing import Any


def answer(request: Any) -> dict[str, Any]:
    """The names in which the pattern is found, by their index."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pattern = re.compile(request["pattern"])
    except (re.error, OverflowError, RecursionError) as error:
        return {"error": str(getattr(error, "msg", error)), "position": getattr(error, "pos", None)}
    return {"matching": [index for index, name in enumerate(request["names"]) if pattern.search(name)]}


if __name__ == "__main__":
    json.dump(answer(json.load(sys.stdin)), sys.stdout)
