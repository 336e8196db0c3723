"""The token of the user's own programs is made anew, where all of them find it."""

from __future__ import annotations

from pathlib import Path

from lm_tools_bridge.machine.own_token import own_headers
from lm_tools_bridge.tokens.token import renew_own_token


def test_the_own_token_is_new_at_each_start_also_where_older_programs_read_it(tmp_path: Path) -> None:
    here, former, unused = (tmp_path / name for name in ("run", "former", "unused"))
    renew_own_token(former)
    first = renew_own_token(here, [former, unused])
    second = renew_own_token(here, [former, unused])
    assert first != second
    assert own_headers(here) == own_headers(former) == {"Authorization": f"Bearer {second}"}
    assert not unused.exists()
