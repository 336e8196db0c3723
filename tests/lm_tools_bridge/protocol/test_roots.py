"""Reading roots from a client's result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lm_tools_bridge.protocol.roots import MAX_ROOTS, MAX_URI, roots_in

WS = "file:///ws"


@pytest.mark.parametrize(
    ("roots", "kept"),
    [
        ([{"uri": WS, "name": "n"}], (WS,)),
        ([{"uri": "FILE:///ws"}], ("FILE:///ws",)),
        ([{"uri": "https://ws"}, {"uri": WS}, {"uri": 7}, {}, 7, None], (WS,)),
        ([{"uri": WS}] * (MAX_ROOTS + 1), (WS,) * MAX_ROOTS),
        ([{"uri": "file:///" + "x" * MAX_URI}, {"uri": WS}], (WS,)),
        ("file:///ws", ()),
        (None, ()),
    ],
)
def test_roots_are_limited_in_number_and_length(roots: Any, kept: tuple[str, ...]) -> None:
    assert roots_in(json.dumps({"roots": roots}).encode()) == kept


@pytest.mark.parametrize("result", [b"{}", b"7", b"", b'{"roots":[{"uri":"\xff"}]}', b"[" * 10_000])
def test_invalid_results_contain_no_roots(result: bytes) -> None:
    assert roots_in(result) == ()
