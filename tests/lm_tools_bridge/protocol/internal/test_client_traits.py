"""Client traits come out of their header as they went in."""

from __future__ import annotations

import pytest

from lm_tools_bridge.protocol.internal.client_traits import ClientTraits


@pytest.mark.parametrize("name", ClientTraits._fields)
def test_each_trait_survives_alone(name: str) -> None:
    traits = ClientTraits(**{name: True})
    assert traits.encode() == name.replace("_", "-")
    assert ClientTraits.decode(traits.encode()) == traits


def test_all_and_none_survive() -> None:
    everything = ClientTraits(*[True] * len(ClientTraits._fields))
    assert ClientTraits.decode(everything.encode()) == everything
    assert (ClientTraits().encode(), ClientTraits.decode("")) == ("", ClientTraits())


def test_words_of_a_newer_manager_are_left_out() -> None:
    assert ClientTraits.decode(" lists-once , of-tomorrow,,") == ClientTraits(lists_once=True)
