"""What servers use of a processor: from two looks, of one process, not too far apart."""

from __future__ import annotations

from typing import Any

from lm_tools_bridge.page.overview.processor_use import LEAST_S, MOST_S, ProcessorUse


def status(used_s: float | None, pid: int = 7) -> dict[str, Any]:
    return {"instanceDetails": [{"workspace": "app-1", "pid": pid, "cpuSec": used_s}]}


def test_a_share_is_known_from_the_second_look_on() -> None:
    use = ProcessorUse()
    assert use.percents(status(1.0), 100.0) == {}
    assert use.percents(status(1.9), 100.0 + LEAST_S / 2) == {}
    assert use.percents(status(2.0), 110.0) == {"app-1": 10}
    assert use.percents(status(9.0), 110.0 + LEAST_S / 2) == {"app-1": 10}, "it does not jump"


def test_another_process_and_a_long_pause_begin_anew() -> None:
    use = ProcessorUse()
    use.percents(status(1.0), 100.0)
    assert use.percents(status(0.1, pid=8), 110.0) == {}
    assert use.percents(status(0.1, pid=8), 110.0 + MOST_S + 1) == {}
    assert use.percents(status(None, pid=8), 180.0) == {}, "the system does not tell"
