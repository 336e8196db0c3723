"""The table that chooses how a response is relayed: the kind of every combination of traits."""

from __future__ import annotations

import itertools

import pytest

from manager.relay.relay_plan import TABLE, RelayKind, ResponseTraits, relay_kind

ALL = [ResponseTraits(*values) for values in itertools.product([False, True], repeat=7)]
UNREAD = {RelayKind.JSON_STREAM, RelayKind.JSON_TRIMMED}


def expected(traits: ResponseTraits) -> RelayKind:
    """The choice of the table, written as rules."""
    is_known_json = traits.is_large and not traits.is_events and traits.names_id and traits.accepts_json
    if traits.is_session:
        return RelayKind.JSON_TRIMMED if is_known_json and traits.has_trim else RelayKind.SESSION
    if traits.is_events:
        return RelayKind.EVENT_RELAY if traits.accepts_events else RelayKind.COLLECTED
    return RelayKind.JSON_STREAM if is_known_json else RelayKind.COLLECTED


@pytest.mark.parametrize("traits", ALL)
def test_every_combination_of_traits_has_the_expected_kind(traits: ResponseTraits) -> None:
    kind = relay_kind(traits)
    assert kind is expected(traits)
    if kind in UNREAD:
        assert traits.names_id, "nothing unread leaves without the id that was asked"
        assert traits.accepts_json
    if kind is RelayKind.EVENT_RELAY:
        assert traits.accepts_events
        assert not traits.is_session
    if traits.is_session and kind in UNREAD:
        assert traits.has_trim


def test_every_row_of_the_table_is_used() -> None:
    """Each is the first match for some traits."""
    first = {
        next(
            number
            for number, (row, _) in enumerate(TABLE)
            if all(wanted in (None, own) for wanted, own in zip(row, traits, strict=True))
        )
        for traits in ALL
    }
    assert first == set(range(len(TABLE)))
    assert {kind for _, kind in TABLE} == set(RelayKind)
