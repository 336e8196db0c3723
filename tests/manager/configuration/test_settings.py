"""Tests the table of settings."""

from __future__ import annotations

import pytest

from manager.configuration.settings import FIELDS, Settings, description


def test_settings_do_not_change() -> None:
    with pytest.raises(AttributeError):
        Settings().http_port = 1


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_says_what_it_is(name: str) -> None:
    assert description(name).endswith(".")
