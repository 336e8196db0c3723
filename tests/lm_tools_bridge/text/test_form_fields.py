"""Fields of a form are read from its schema, and lines are checked by their kind."""

from __future__ import annotations

import pytest

from lm_tools_bridge.text.form_fields import Field, InvalidLine, fields


@pytest.mark.parametrize("line", ["x", "nan", "inf", "1e999"])
def test_what_is_no_number_is_refused(line: str) -> None:
    with pytest.raises(InvalidLine, match="a number"):
        Field("n", "number", "n").value(line)


def test_numbers_are_read_by_their_kind() -> None:
    assert Field("n", "number", "n").value("1.5") == 1.5
    assert Field("n", "integer", "n").value("7") == 7


def test_fields_keep_the_order_of_their_schema() -> None:
    schema = {"properties": {"b": {"type": "string"}, "a": {"type": "boolean"}, "odd": 7}}
    assert [(one.name, one.kind) for one in fields(schema)] == [("b", "string"), ("a", "boolean")]
