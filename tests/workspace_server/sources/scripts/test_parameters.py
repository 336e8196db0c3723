"""The schema that clients see."""

from __future__ import annotations

import json

from workspace_server.sources.scripts.manifest import Manifest, parse
from workspace_server.sources.scripts.script import input_schema, make_tool, with_defaults

LEAST = 'name = "n"\ndescription = "d"\nscript = "s.py"\n'


def manifest(text: str) -> Manifest:
    found = parse((LEAST + text).encode(), "f", of_workspace=True)
    assert isinstance(found, Manifest)
    return found


def test_generated_schema_keeps_file_order_and_says_what_is_required() -> None:
    text = '[parameters.b]\ntype = "number"\nrequired = true\n[parameters.a]\ntype = "string"\nrequired = true\n[parameters.c]\ntype = "object"\n'
    expected = (
        '{"type": "object", "properties": {"b": {"type": "number"}, "a": {"type": "string"}, '
        '"c": {"type": "object", "additionalProperties": true}}, "additionalProperties": false, "required": ["b", "a"]}'
    )
    assert {json.dumps(input_schema(manifest(text))) for _ in range(3)} == {expected}


def test_required_is_left_out_if_no_argument_is_required() -> None:
    assert input_schema(manifest("")) == {"type": "object", "properties": {}, "additionalProperties": False}


def test_tool_object_has_what_the_manifest_says_and_no_more() -> None:
    assert list(make_tool(manifest(""), "f").definition) == ["name", "description", "inputSchema"]
    full = make_tool(
        manifest(
            'annotations = {destructiveHint = true}\noutput_schema = {type = "object"}\nnetwork = true\n'
            'requires_approval = true\ntimeout_s = 3\nkeywords = ["k"]\nvisibility = "ondemand"\n'
        ),
        "print",
    )
    assert full.definition["annotations"] == {"destructiveHint": True}
    assert full.definition["outputSchema"] == {"type": "object"}
    assert (full.visibility, full.keywords, full.timeout_s) == ("ondemand", ("k",), 3.0)
    assert (full.requires_approval, full.rate_limited, full.fingerprint) == (True, True, "print")
    assert "keywords" not in full.definition


def test_missing_arguments_get_their_defaults() -> None:
    one = manifest('[parameters.a]\ntype = "int"\ndefault = 7\n[parameters.b]\ntype = "int"\n')
    assert with_defaults(one, {}) == {"a": 7}
    assert with_defaults(one, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
