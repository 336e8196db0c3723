"""The `datetime` tool with a clock and a local zone of the test's choosing."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.examples import examples
from workspace_server.sources.builtin.tools import date_time
from workspace_server.sources.builtin.tools.date_time import TOOL, Zone, call
from workspace_server.tool import ToolError, ToolResult

NOW = 1774747800.75  # 2026-03-29T01:30:00Z, half an hour after Berlin's clocks went forward
OUTPUT = jsonschema_rs.validator_for(TOOL.definition["outputSchema"], offline=True)
INPUT = jsonschema_rs.validator_for(TOOL.definition["inputSchema"], offline=True)


def berlin() -> Zone:
    zone = date_time.find_zone("Europe/Berlin")
    assert zone is not None
    return zone


async def ask(**arguments: Any) -> ToolResult:
    assert INPUT.is_valid(arguments)
    result = await call(arguments, lambda: NOW, berlin)
    assert OUTPUT.is_valid(result.structured)
    return result


async def answer(**arguments: Any) -> dict[str, Any]:
    return dict((await ask(**arguments)).structured or {})


async def refusal(**arguments: Any) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await ask(**arguments)
    return caught.value


async def test_now_is_the_default_in_local_time() -> None:
    result = await ask()
    assert result.text == "2026-03-29T03:30:00+02:00 Sunday (Europe/Berlin)"
    assert result.structured == {
        "iso": "2026-03-29T03:30:00+02:00",
        "epochSeconds": 1774747800,
        "timezone": "Europe/Berlin",
        "utcOffset": "+02:00",
        "weekday": "Sunday",
    }


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("UTC", "2026-03-29T01:30:00+00:00 Sunday (UTC)"),
        ("utc", "2026-03-29T01:30:00+00:00 Sunday (UTC)"),
        ("local", "2026-03-29T03:30:00+02:00 Sunday (Europe/Berlin)"),
        ("America/New_York", "2026-03-28T21:30:00-04:00 Saturday (America/New_York)"),
    ],
)
async def test_now_is_shown_in_the_zone_asked_for(zone: str, text: str) -> None:
    assert (await ask(timezone=zone)).text == text


@pytest.mark.parametrize(
    ("value", "iso"),
    [
        ("2026-01-05T10:00", "2026-01-05T10:00:00+01:00"),
        ("2026-01-05", "2026-01-05T00:00:00+01:00"),
        ("20260105", "2026-01-05T00:00:00+01:00"),
        ("2026-01-05T10:00:00Z", "2026-01-05T11:00:00+01:00"),
        ("2026-01-05T10:00:00.25-05:00", "2026-01-05T16:00:00.250000+01:00"),
        (0, "1970-01-01T01:00:00+01:00"),
        (0.5, "1970-01-01T01:00:00.500000+01:00"),
        ("0", "1970-01-01T01:00:00+01:00"),
        ("-1.5", "1970-01-01T00:59:58.500000+01:00"),
        ("86400", "1970-01-02T01:00:00+01:00"),
        ("1774747800", "2026-03-29T03:30:00+02:00"),
        ("1850-01-01", "1850-01-01T00:00:00+00:53:28"),
    ],
)
async def test_parse_reads_iso_and_epoch(value: str | float, iso: str) -> None:
    assert (await answer(operation="parse", value=value))["iso"] == iso


@pytest.mark.parametrize(
    ("arguments", "iso", "flags"),
    [
        ({"operation": "parse", "value": "2026-03-29T02:30"}, "2026-03-29T03:30:00+02:00", {"gap"}),
        ({"operation": "parse", "value": "2026-10-25T02:30"}, "2026-10-25T02:30:00+02:00", {"ambiguous"}),
        ({"operation": "parse", "value": "2026-10-25T02:30+01:00"}, "2026-10-25T02:30:00+01:00", set()),
        (
            {"operation": "add", "value": "2026-03-28T12:00", "duration": "P1D"},
            "2026-03-29T12:00:00+02:00",
            set(),
        ),
        (
            {"operation": "add", "value": "2026-03-28T12:00", "duration": "PT24H"},
            "2026-03-29T13:00:00+02:00",
            set(),
        ),
        (
            {"operation": "add", "value": "2026-03-28T02:30", "duration": "P1D"},
            "2026-03-29T03:30:00+02:00",
            {"gap"},
        ),
        (
            {"operation": "add", "value": "2026-10-24T02:30", "duration": "P1DT1H"},
            "2026-10-25T02:30:00+01:00",
            {"ambiguous"},
        ),
    ],
)
async def test_clock_changes_are_resolved_and_flagged(
    arguments: dict[str, Any], iso: str, flags: set[str]
) -> None:
    found = await answer(**arguments)
    assert found["iso"] == iso
    assert {flag for flag in ("gap", "ambiguous") if found.get(flag) is True} == flags


@pytest.mark.parametrize(
    ("value", "duration", "iso"),
    [
        ("2024-01-31", "P1M", "2024-02-29T00:00:00+01:00"),
        ("2024-02-29", "P1Y", "2025-02-28T00:00:00+01:00"),
        ("2026-01-05", "-P2W", "2025-12-22T00:00:00+01:00"),
        ("2026-01-05", "PT1H30M0,5S", "2026-01-05T01:30:00.500000+01:00"),
        (None, "PT1H", "2026-03-29T04:30:00+02:00"),
    ],
)
async def test_add_moves_by_an_iso_duration(value: str | None, duration: str, iso: str) -> None:
    given = {} if value is None else {"value": value}
    assert (await answer(operation="add", duration=duration, **given))["iso"] == iso


@pytest.mark.parametrize(
    ("value", "other", "seconds", "duration"),
    [
        ("2026-03-29", "2026-03-30", 82800, "PT23H"),
        ("2026-10-25", "2026-10-26", 90000, "PT25H"),
        ("2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00Z", -0.5, "-PT0.5S"),
        (0, 0, 0, "PT0S"),
        (0, 86461, 86461, "PT24H1M1S"),
    ],
)
async def test_diff_is_absolute_time(
    value: str | float, other: str | float, seconds: float, duration: str
) -> None:
    result = await ask(operation="diff", value=value, other=other)
    assert result.structured == {"seconds": seconds, "duration": duration}
    assert result.text == f"{seconds} seconds ({duration})"


async def test_convert_reads_local_time_and_shows_another_zone() -> None:
    result = await ask(operation="convert", value="2026-07-01T09:00", timezone="America/New_York")
    assert result.text == "2026-07-01T03:00:00-04:00 Wednesday (America/New_York)"


@pytest.mark.parametrize(
    ("name", "first"),
    [("Europe/Berln", "Europe/Berlin"), ("berlin", "Europe/Berlin"), ("New York", "America/New_York")],
)
async def test_mistyped_zone_gets_suggestions(name: str, first: str) -> None:
    error = await refusal(timezone=name)
    assert error.message.startswith(f"Error: Unknown timezone '{name}'; did you mean {first}")
    assert error.structured is not None
    assert 1 <= len(error.structured["candidates"]) <= 3


@pytest.mark.parametrize("name", ["../../etc/passwd", "Europe", "a\0b", "\ud800", "/etc/localtime", "+02:00"])
async def test_zone_names_are_never_paths(name: str) -> None:
    with pytest.raises(ToolError, match="Unknown timezone"):
        await call({"timezone": name}, lambda: NOW, berlin)


@pytest.mark.parametrize(
    ("arguments", "pointer", "hint"),
    [
        ({"operation": "parse"}, "/value", "operation parse needs value: ISO 8601"),
        ({"operation": "diff", "value": 0}, "/other", "operation diff needs other"),
        ({"operation": "add"}, "/duration", "write ISO 8601 such as P1D"),
        ({"operation": "add", "duration": "1 day"}, "/duration", "Cannot read duration '1 day'"),
        ({"operation": "add", "duration": "P"}, "/duration", "Cannot read duration"),
        ({"operation": "add", "duration": "P1DT"}, "/duration", "Cannot read duration"),
        ({"operation": "parse", "value": "tomorrow"}, "/value", "Cannot read 'tomorrow'"),
        ({"operation": "parse", "value": "2026"}, "/value", "Cannot read '2026'"),
        ({"operation": "parse", "value": "2026-13-01"}, "/value", "month must be in 1..12"),
        ({"operation": "parse", "value": 1774747800000}, "/value", "divide milliseconds by 1000"),
        ({"operation": "parse", "value": "9999-12-31T23:59:59-12:00"}, "/value", "outside the years"),
        ({"operation": "add", "duration": "P999999Y"}, "/value", "outside the years 1 to 9999"),
    ],
)
async def test_refusal_says_what_to_write(arguments: dict[str, Any], pointer: str, hint: str) -> None:
    error = await refusal(**arguments)
    assert error.message.startswith("Error: ")
    assert hint in error.message
    assert error.structured is not None
    assert error.structured["pointer"] == pointer


@examples(300)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "operation": st.sampled_from(["now", "parse", "add", "diff", "convert"]),
            "value": st.one_of(st.text(max_size=30), st.floats(), st.integers(), st.datetimes().map(str)),
            "other": st.one_of(st.text(max_size=30), st.floats(allow_nan=False), st.datetimes().map(str)),
            "duration": st.from_regex(r"[-+]?P([0-9]{1,9}[YMWD])?(T[0-9]{1,9}[HMS])?", fullmatch=True),
            "timezone": st.sampled_from(["local", "UTC", "Asia/Kathmandu", "Australia/Lord_Howe"]),
        },
    )
)
async def test_any_arguments_give_a_fitting_answer_or_a_refusal(arguments: dict[str, Any]) -> None:
    try:
        result = await call(arguments, lambda: NOW, berlin)
    except ToolError as error:
        assert error.message.startswith("Error: ")
    else:
        assert OUTPUT.is_valid(result.structured)


@pytest.mark.parametrize(
    ("setting", "name"), [("Asia/Tokyo", "Asia/Tokyo"), (":Asia/Tokyo", "Asia/Tokyo"), ("UTC", "UTC")]
)
def test_local_zone_follows_the_environment(monkeypatch: pytest.MonkeyPatch, setting: str, name: str) -> None:
    monkeypatch.setenv("TZ", setting)
    assert date_time.local_zone().name == name
