"""When the folder of a running server counts as gone."""

from __future__ import annotations

import pytest

from manager.routing.state.root_watch import LOOKS, RootSign, RootWatch


@pytest.mark.parametrize("sign", list(RootSign))
def test_a_server_stops_after_so_many_equal_looks_and_never_for_lack_of_an_answer(sign: RootSign) -> None:
    watch = RootWatch()
    answers = [watch.saw(sign) for _ in range(12)]
    assert answers.count(True) == (0 if sign in {RootSign.HERE, RootSign.UNKNOWN} else 13 - LOOKS[sign])
    assert not any(answers[: LOOKS.get(sign, 12) - 1])


@pytest.mark.parametrize("sign", [RootSign.MOVED, RootSign.NO_WORKTREE, RootSign.MISSING])
@pytest.mark.parametrize("between", [RootSign.HERE, RootSign.UNKNOWN])
def test_a_folder_that_is_away_for_a_moment_stops_nothing(sign: RootSign, between: RootSign) -> None:
    watch = RootWatch()
    for _ in range(4):
        assert not any(watch.saw(sign) for _ in range(LOOKS[sign] - 1))
        assert not watch.saw(between)
