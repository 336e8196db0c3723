"""Schemas are examined for secrets, references and cost."""

from __future__ import annotations

from typing import Any

import pytest

from workspace_server.schemas.schema_limits import (
    ANY_VALUE,
    MAX_EVALUATIONS,
    EvaluationCost,
    resolve,
    survey_schema,
)

SECRET = {"type": "string", "writeOnly": True}


def doubling(levels: int) -> dict[str, Any]:
    """A schema of a few lines that stands for 2**levels evaluations."""
    definitions: dict[str, Any] = {
        f"a{level}": {"allOf": [{"$ref": f"#/$defs/a{level + 1}"}] * 2} for level in range(levels)
    }
    return {"type": "object", "$ref": "#/$defs/a0", "$defs": {**definitions, f"a{levels}": {}}}


@pytest.mark.parametrize(
    ("schema", "hidden"),
    [
        ({"properties": {"key": SECRET}}, {"key"}),
        ({"properties": {"key": {"type": "string", "format": "password"}}}, {"key"}),
        ({"properties": {"keys": {"items": SECRET}}}, {"keys"}),
        ({"properties": {"login": {"anyOf": [{"properties": {"key": SECRET}}]}}}, {"key"}),
        ({"additionalProperties": SECRET}, {ANY_VALUE}),
        ({"$defs": {"s": SECRET}}, {ANY_VALUE}),
        ({"$defs": {"login": {"properties": {"key": SECRET}}}}, {"key"}),
        ({"properties": {"a": {"$ref": "#/x-odd/place"}}, "x-odd": {"place": SECRET}}, {ANY_VALUE}),
        ({"properties": {"writeOnly": {"type": "boolean"}, "format": {"const": "password"}}}, set()),
    ],
)
def test_secrets_are_found_wherever_a_schema_declares_them(schema: dict[str, Any], hidden: set[str]) -> None:
    assert survey_schema({"type": "object", **schema}).hidden == hidden


@pytest.mark.parametrize(
    ("reference", "found"),
    [("#", True), ("#/$defs/a~1b", True), ("#/$defs/a%2Fb", False), ("#/none", False), ("other", False)],
)
def test_references_are_resolved_by_pointer(reference: str, found: bool) -> None:
    schema = {"$defs": {"a/b": {"type": "string"}}}
    assert (resolve(schema, reference) is not None) is found


@pytest.mark.parametrize(
    ("schema", "per_level"),
    [
        ({"type": "object"}, [1, 0]),
        ({"type": "object", "properties": {"a": {}, "b": {}}}, [1, 1, 0]),
        ({"type": "object", "properties": {"not": {"$ref": "#"}}}, [1, 2, 2]),
        ({"type": "object", "anyOf": [{}, {}], "properties": {"a": {"allOf": [{}, {}]}}}, [3, 3, 0]),
    ],
)
def test_cost_counts_evaluations_per_level(schema: dict[str, Any], per_level: list[int]) -> None:
    cost = EvaluationCost(survey_schema(schema))
    counted = [cost.evaluations([0] * level + [1]) for level in range(len(per_level))]
    assert counted == per_level


@pytest.mark.parametrize(
    "schema",
    [{}, {"properties": {"a": {"anyOf": [{}, {}]}}}, {"allOf": [{}] * 9}, doubling(11)],
)
def test_as_many_plain_members_may_be_checked_as_the_evaluations_allow(schema: dict[str, Any]) -> None:
    cost = EvaluationCost(survey_schema({"type": "object", **schema}))
    most = cost.most_members()
    assert most >= 0
    assert cost.evaluations([1, most]) <= MAX_EVALUATIONS
    assert EvaluationCost(survey_schema(doubling(30))).most_members() == -1


@pytest.mark.parametrize(("levels", "too_much"), [(10, False), (30, True)])
def test_doubling_references_are_recognised_without_expanding_them(levels: int, too_much: bool) -> None:
    assert EvaluationCost(survey_schema(doubling(levels))).always_too_much is too_much


def test_doubling_recursion_costs_more_with_each_level_of_the_arguments() -> None:
    schema = {"type": "object", "properties": {"c": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    cost = EvaluationCost(survey_schema(schema))
    assert not cost.always_too_much
    assert cost.evaluations([1] * 5) < MAX_EVALUATIONS < cost.evaluations([1] * 40)
