"""Arguments and results are recorded only where and while somebody asked for it, and can be purged."""

from __future__ import annotations

from pathlib import Path

import pytest

from lm_tools_bridge.recorder import retention
from lm_tools_bridge.recorder.call_log import Contents, Filter
from lm_tools_bridge.recorder.contents import ALL, ContentRule, drop_rules, set_rule
from lm_tools_bridge.recorder.database import open_to_write
from manager.call_observer import CallDetails
from support.recorded_calls import DAY_S, WALL, Clock, ended, file, log_of, recorder


def rule(project: str = ALL, seconds: float | None = None) -> ContentRule:
    made = round(WALL * 1000)
    return ContentRule(project, made, None if seconds is None else made + round(seconds * 1000))


def with_contents(arguments: bytes, answer: bytes, *, is_cut: bool = False) -> CallDetails:
    return CallDetails(result=bytearray(answer), is_cut=is_cut)


def stored(folder: Path, arguments: bytes, answer: bytes) -> Contents:
    one = recorder(folder)
    one.observe_call(ended(arguments=arguments, details=with_contents(arguments, answer)))
    one.flush()
    with log_of(folder) as log:
        found = log.contents(1)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}', '{"content":[]}'),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-1}}', '{"error":{"code":-1}}'),
        (
            b'event: message\ndata: {"jsonrpc":"2.0","method":"notifications/progress"}\n\n'
            b'data: {"jsonrpc":"2.0","id":1,"result":{"a":1}}\n\n',
            '{"a":1}',
        ),
        (b"broken off {", "broken off {"),
    ],
)
def test_the_result_is_taken_from_the_answer(tmp_path: Path, answer: bytes, result: str) -> None:
    assert stored(tmp_path, b"{}", answer).result == result


def test_secrets_never_reach_the_file(tmp_path: Path) -> None:
    secret = b"ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    found = stored(tmp_path, b'{"token":"%b"}' % secret, b'{"id":1,"result":{"text":"it is %b"}}' % secret)
    assert found.hidden == 2
    for name in file(tmp_path).parent.iterdir():
        assert secret not in name.read_bytes()


def test_a_rule_takes_effect_without_a_restart_and_ends(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock)
    one.flush()
    assert not one.workspaces_with_contents
    database = open_to_write(file(tmp_path))
    set_rule(database, rule("site-1a2b", 3600))
    one.flush()
    assert "site-1a2b" in one.workspaces_with_contents
    assert "other" not in one.workspaces_with_contents
    clock.pass_time(3599)
    one.flush()
    assert one.workspaces_with_contents
    clock.pass_time(2)
    one.flush()
    assert not one.workspaces_with_contents
    database.close()
    one.close()


def test_a_rule_ends_on_time_though_the_clock_is_set_back(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock)
    one.flush()
    database = open_to_write(file(tmp_path))
    set_rule(database, rule(seconds=3600))
    one.flush()
    clock.monotonic += 3601
    clock.wall -= 7 * DAY_S
    one.flush()
    assert not one.workspaces_with_contents
    database.close()
    one.close()


def test_a_rule_for_all_projects_and_its_end(tmp_path: Path) -> None:
    one = recorder(tmp_path)
    one.flush()
    database = open_to_write(file(tmp_path))
    set_rule(database, rule())
    one.flush()
    assert "anything" in one.workspaces_with_contents
    assert drop_rules(database, None) == 1
    one.flush()
    assert not one.workspaces_with_contents
    database.close()
    one.close()


def test_contents_expire_before_their_calls(tmp_path: Path) -> None:
    clock = Clock()
    one = recorder(tmp_path, clock, contents_age_s=DAY_S)
    one.observe_call(ended(begun=999.0, arguments=b"{}", details=with_contents(b"{}", b"{}")))
    one.flush()
    clock.pass_time(1.5 * DAY_S)
    one.flush()
    with log_of(tmp_path) as log:
        assert log.contents(1) is None
        assert len(log.find(Filter(), 10)) == 1


@pytest.mark.parametrize("calls", [False, True])
def test_after_a_purge_nothing_is_left_in_the_file(tmp_path: Path, calls: bool) -> None:
    one = recorder(tmp_path)
    for number in range(50):
        arguments = b'{"q":"a remarkable question %d"}' % number
        one.observe_call(ended("a-tool", arguments=arguments, details=with_contents(arguments, b"{}")))
    one.flush()
    database = open_to_write(file(tmp_path))
    assert retention.purge(database, calls=calls) == (50 if calls else 0, 50)
    database.close()
    for name in file(tmp_path).parent.iterdir():
        assert b"remarkable" not in name.read_bytes()
    one.observe_call(ended("later"))
    one.flush()
    with log_of(tmp_path) as log:
        assert len(log.find(Filter(), 100)) == (1 if calls else 51)
    one.close()
