"""Estimates of the tokens of texts: near to what tokenizers count."""

from __future__ import annotations

import json
import time

import pytest

from lm_tools_bridge.text.text_tokens import text_tokens

PROSE = (
    "The manager keeps one server for each project. A request that names a workspace is forwarded to its server, "
    "and the answer comes back on the same connection. Nothing else is shared between projects."
)
CODE = '''def read(path: Path, limit: int) -> bytes | None:
    """The content of a file; None when it does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1)
'''
DATA = json.dumps(
    [{"path": f"/srv/a/{at}.py", "size": at * 337, "mtime": 1700000000 + at * 71} for at in range(40)]
)


@pytest.mark.parametrize(
    ("text", "counted"), [(PROSE, 38), (CODE, 74), (DATA, 1038)], ids=["prose", "code", "numbers"]
)
def test_estimates_are_within_a_quarter_of_what_a_tokenizer_counts(text: str, counted: int) -> None:
    """Counted with the vocabulary cl100k."""
    assert 0.75 <= text_tokens(text) / counted <= 1.25


def test_nothing_costs_nothing_and_odd_text_is_estimated() -> None:
    assert text_tokens("") == 0
    assert text_tokens("\ud83d") > 0


def test_a_mebibyte_is_estimated_in_a_moment() -> None:
    started = time.process_time()
    text_tokens(DATA * 400)
    assert time.process_time() - started < 0.2
