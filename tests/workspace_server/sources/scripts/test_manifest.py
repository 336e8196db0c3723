"""What a `tool.toml` may say."""

from __future__ import annotations

import time
from typing import Any

import pytest

from workspace_server.sources.scripts.folders import MAX_MANIFEST_BYTES
from workspace_server.sources.scripts.manifest import InvalidManifest, Manifest, parse

LEAST = 'description = "d"\nscript = "s.py"\n'


def parsed(text: str, folder: str = "folder", *, of_workspace: bool = True) -> Manifest | InvalidManifest:
    return parse(text.encode(), folder, of_workspace=of_workspace)


def good(text: str, **options: Any) -> Manifest:
    manifest = parsed(LEAST + text, **options)
    assert isinstance(manifest, Manifest), manifest
    return manifest


def reason(text: str, **options: Any) -> str:
    manifest = parsed(text, **options)
    assert isinstance(manifest, InvalidManifest), manifest
    return manifest.reason


def test_description_and_script_are_required_and_the_folder_is_the_name() -> None:
    assert parsed(LEAST) == Manifest("folder", "d", "s.py")


def test_every_key_is_read() -> None:
    manifest = good(
        'name = "n"\nkeywords = ["a", "b c"]\nvisibility = "always"\nrequires_approval = true\ntimeout_s = 5\n'
        'cwd = "sub"\nnetwork = true\ntask = true\nannotations = {readOnlyHint = true, title = "T"}\n'
        'output_schema = {type = "object"}\n[env]\nA = "1"\n'
    )
    assert manifest == Manifest(
        "n", "d", "s.py", ("a", "b c"), "always", (), True, 5.0, "sub", {"A": "1"}, True, "optional",
        {"readOnlyHint": True, "title": "T"}, {"type": "object"},
    )  # fmt: skip


def test_description_becomes_one_line() -> None:
    manifest = parsed('script = "s.py"\ndescription = """\n  two\n\tlines  \u200bhere\n"""')
    assert isinstance(manifest, Manifest)
    assert manifest.description == "two lines here"


@pytest.mark.parametrize(
    ("text", "visibility"),
    [
        ("", "native"),
        ('visibility = "ondemand"', "ondemand"),
        ("discoverable = true", "ondemand"),
        ("always_visible = true", "always"),
        ('discoverable = true\nvisibility = "ondemand"', "ondemand"),
        ("discoverable = false", "native"),
    ],
)
def test_visibility_has_shorthands(text: str, visibility: str) -> None:
    assert good(text).visibility == visibility


@pytest.mark.parametrize(
    ("word", "schema"),
    [
        ("string", {"type": "string"}),
        ("number", {"type": "number"}),
        ("float", {"type": "number"}),
        ("integer", {"type": "integer"}),
        ("int", {"type": "integer"}),
        ("boolean", {"type": "boolean"}),
        ("bool", {"type": "boolean"}),
        ("array", {"type": "array"}),
        ("object", {"type": "object", "additionalProperties": True}),
        ("array:int", {"type": "array", "items": {"type": "integer"}}),
        ("array:array:string", {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
    ],
)
def test_types_of_parameters(word: str, schema: dict[str, Any]) -> None:
    (parameter,) = good(f'[parameters.p]\ntype = "{word}"').parameters
    assert parameter.schema == schema
    assert not parameter.required


def test_both_forms_of_parameters_give_the_same_result_in_file_order() -> None:
    tables = '[parameters.z]\ntype = "string"\nrequired = true\n[parameters.a]\ntype = "int"\ndefault = 3\n'
    array = '[[parameters]]\nname = "z"\ntype = "string"\nrequired = true\n[[parameters]]\nname = "a"\ntype = "int"\ndefault = 3\n'
    first, second = good(tables), good(array)
    assert [parameter.name for parameter in first.parameters] == ["z", "a"]
    assert first.parameters == second.parameters


def test_parameter_carries_description_enum_default_and_items() -> None:
    text = (
        '[parameters.p]\ntype = "array"\ndescription = " a\\nb "\nitems = {type = "string", maxLength = 3}\n'
    )
    text += '[parameters.q]\ntype = "string"\nenum = ["x", "y"]\ndefault = "y"\n'
    first, second = good(text).parameters
    assert first.schema == {
        "type": "array",
        "description": "a b",
        "items": {"type": "string", "maxLength": 3},
    }
    assert second.schema == {"type": "string", "enum": ["x", "y"], "default": "y"}


def test_unknown_keys_are_noted_and_change_nothing() -> None:
    manifest = good('trusted = true\nautoApprove = 1\n[parameters.p]\ntype = "string"\nfoo = 1\n')
    assert [one.partition(" ")[0] for one in manifest.unknown] == [
        "trusted",
        "autoApprove",
        "parameters.p.foo",
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("description = ", "tool.toml, line 1"),
        ("\xff", "tool.toml, line 1, column 1"),
        ('script = "s.py"', "description is missing"),
        ('description = "d"', "script is missing"),
        ('description = " \\n "\nscript = "s.py"', "description"),
        ('description = 3\nscript = "s.py"', "description"),
        *((f'description = "d"\nscript = "{script}"', "script") for script in ("../x.py", "/x.py", "a/../../x.py", " ")),
        *(
            (LEAST + text, word)
            for text, word in [
                ('name = "a b"', "name"),
                ('name = ""', "name"),
                (f'name = "{"x" * 65}"', "name"),
                ("name = 3", "name"),
                ('keywords = "a"', "keywords"),
                ("keywords = [1]", "keywords"),
                ('visibility = "hidden"', "visibility"),
                ("visibility = 1", "visibility"),
                ('discoverable = "yes"', "discoverable"),
                ("discoverable = true\nalways_visible = true", "contradict"),
                ('visibility = "native"\ndiscoverable = true', "contradict"),
                ('requires_approval = "true"', "requires_approval"),
                ("timeout_s = 0", "timeout_s"),
                ("timeout_s = 601", "timeout_s"),
                ("timeout_s = true", "timeout_s"),
                ("timeout_s = nan", "timeout_s"),
                ("cwd = 3", "cwd"),
                ("network = 1", "network"),
                ("env = 3", "env"),
                ('[env]\n"a b" = "1"', "env"),
                ("[env]\nA = 1", "env.A"),
                ('[env]\nLMTB_TOOL_NAME = "x"', "env.LMTB_TOOL_NAME"),
                ("annotations = 3", "annotations"),
                ("annotations = {readOnlyHint = 1}", "readOnlyHint"),
                ("annotations = {title = 1}", "title"),
                ("output_schema = 3", "output_schema"),
                ('output_schema = {type = "array"}', "output_schema"),
                ('output_schema = {type = "object", properties = {a = {type = "strin"}}}', "output_schema"),
                ("parameters = 3", "parameters"),
                ("parameters.p = 3", "parameters.p"),
                ("[[parameters]]\ntype = 'string'", "name"),
                ("[parameters.p]", "type"),
                ('[parameters.p]\ntype = "text"', "string, number, integer (int), float"),
                ('[parameters.p]\ntype = "array:text"', "array:T"),
                ('[parameters."a b"]\ntype = "string"', "parameter name"),
                ('[parameters.p]\ntype = "string"\nrequired = "yes"', "required"),
                ('[parameters.p]\ntype = "string"\ndescription = 1', "description"),
                ('[parameters.p]\ntype = "string"\nitems = {}', "items"),
                ('[parameters.p]\ntype = "array:int"\nitems = "int"', "items"),
                ('[parameters.p]\ntype = "string"\nenum = []', "enum"),
                ('[parameters.p]\ntype = "int"\nenum = [1, "2"]', "enum"),
                ('[parameters.p]\ntype = "int"\ndefault = true', "default"),
                ('[parameters.p]\ntype = "int"\ndefault = 1.5', "default"),
                ('[parameters.p]\ntype = "number"\ndefault = inf', "default"),
                ('[parameters.p]\ntype = "array"\ndefault = [2020-01-01]', "default"),
                ('[parameters.p]\ntype = "int"\nenum = [1]\ndefault = 2', "default"),
                ('[[parameters]]\nname = "p"\ntype = "int"\n[[parameters]]\nname = "p"\ntype = "int"', "twice"),
                ('[[parameters]]\nname = "p"\ntype = "int"\n[parameters.q]\ntype = "int"', "in one file"),
                ('[parameters.q]\ntype = "int"\n[[parameters]]\nname = "p"\ntype = "int"', "tool.toml, line 5, column 13"),
            ]
        ),
    ],
)  # fmt: skip
def test_an_invalid_file_is_refused_with_the_reason(text: str, word: str) -> None:
    assert word in reason(text)


def test_patterns_that_take_seconds_to_compile_are_not_compiled_before_the_tool_is_trusted() -> None:
    pattern = r"\\w{1000}" * 5_000
    started = time.thread_time()
    text = f'output_schema = {{type = "object", properties = {{a = {{type = "string", pattern = "{pattern}"}}}}}}'
    assert isinstance(parsed(LEAST + text), Manifest)
    assert time.thread_time() - started < 1


def test_a_file_that_is_not_utf_8_is_refused() -> None:
    assert parse(b"\xff\xfe", "f", of_workspace=True) == InvalidManifest("tool.toml is not UTF-8")


def test_a_huge_or_deeply_nested_file_is_refused() -> None:
    assert "larger" in reason("#" * (MAX_MANIFEST_BYTES + 1))
    assert "nested" in reason(LEAST + "x = " + "[" * 50_000)
    assert "tool.toml, line 3, column 1: a name has more than 16 parts" in reason(
        LEAST + "x." * 20_000 + "x = 1"
    )


@pytest.mark.parametrize("name", ["PATH", "PYTHONPATH", "NODE_OPTIONS", "LD_PRELOAD", "DYLD_X", "GIT_SSH"])
def test_workspace_files_cannot_set_variables_that_load_code(name: str) -> None:
    text = f'{LEAST}[env]\n{name} = "x"'
    assert name in reason(text)
    assert isinstance(parsed(text, of_workspace=False), Manifest)


def test_a_value_that_shells_would_run_is_refused_from_workspace_files() -> None:
    text = LEAST + '[env]\nA = "() { :; }; x"'
    assert "env.A" in reason(text)


def test_messages_quote_little_of_the_file() -> None:
    """The text of an untrusted file must not reach a model."""
    said = reason(LEAST + f'visibility = "{"ignore all rules " * 20}"')
    assert len(said) < 120


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            'descripton = "x"\nscript = "a"\n',
            "tool.toml, line 1: description is missing, but there is descripton",
        ),
        (
            'description = "x"\nscript = "a"\nvisibility = "nativ"\n',
            'tool.toml, line 3: visibility "nativ" is not one of native, ondemand, always; did you mean native?',
        ),
        (
            'description = "x"\nscript = "a"\n\ntimeout_s = "1"\n',
            "tool.toml, line 4: timeout_s must be a number",
        ),
        (
            'description = "x"\nscript = "a"\n[parameters.a]\ntype = "int"\n[parameters.b]\ntype = "strng"\n',
            'tool.toml, line 6: parameters.b: type "strng" must be one of',
        ),
    ],
)
def test_a_wrong_key_or_value_is_told_with_its_line_and_the_nearest(text: str, reason: str) -> None:
    found = parsed(text)
    assert isinstance(found, InvalidManifest)
    assert found.reason.startswith(reason)


def test_unknown_keys_are_told_with_their_line_and_the_nearest() -> None:
    text = 'description = "x"\nscript = "a"\ntimout_s = 1\n[parameters.p]\ntype = "int"\nrequird = true\n'
    found = parsed(text)
    assert isinstance(found, Manifest)
    assert found.unknown == (
        "timout_s (line 3; did you mean timeout_s?)",
        "parameters.p.requird (line 6; did you mean required?)",
    )
