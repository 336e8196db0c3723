"""What compilers and linters print becomes diagnostics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.code_intelligence.session.checker_outputs import OUTPUTS, diagnostics
from lm_tools_bridge.code_intelligence.specification import CheckFormat

ROOT = Path("/project")
MYPY = json.dumps(
    {
        "file": "a.py",
        "line": 3,
        "column": 4,
        "message": "wrong",
        "hint": None,
        "code": "assignment",
        "severity": "error",
    }
)
TSC = "a.ts(3,5): error TS2322: wrong\n  more words\nFound 1 error.\n"
ESLINT = json.dumps(
    [
        {
            "filePath": "/project/a.js",
            "messages": [
                {
                    "ruleId": "no-var",
                    "severity": 2,
                    "message": "wrong",
                    "line": 3,
                    "column": 5,
                    "endLine": 3,
                    "endColumn": 9,
                }
            ],
        }
    ]
)


def span(*, primary: bool = True, line: int = 3) -> dict[str, Any]:
    place = {
        "file_name": "src/a.rs",
        "line_start": line,
        "line_end": line,
        "column_start": 5,
        "column_end": 9,
    }
    return {**place, "is_primary": primary}


def cargo(**members: Any) -> str:
    message = {
        "message": "wrong",
        "level": "error",
        "code": {"code": "E0308"},
        "spans": [span(), span(primary=False, line=1)],
        **members,
    }
    return json.dumps({"reason": "compiler-message", "message": message})


CARGO = "\n".join(
    [
        json.dumps({"reason": "compiler-artifact", "target": {}}),
        cargo(),
        cargo(level="failure-note"),
        cargo(spans=[], message="aborting due to 1 previous error"),
        json.dumps({"reason": "build-finished", "success": False}),
    ]
)
GO_VET = "# sample\n./a.go:3:5: wrong\n# other [other.test]\nvet: exit\n"


@pytest.mark.parametrize(
    ("form", "text", "file", "code", "end"),
    [
        ("mypy", MYPY, "a.py", "assignment", 4),
        ("tsc", TSC, "a.ts", 2322, 4),
        ("eslint", ESLINT, "a.js", "no-var", 8),
        ("cargo", CARGO, "src/a.rs", "E0308", 8),
        ("go-vet", GO_VET, "a.go", None, 4),
    ],
)
def test_each_finding_has_its_place_and_code(
    form: CheckFormat, text: str, file: str, code: object, end: int
) -> None:
    found = diagnostics(OUTPUTS[form], text, form, ROOT)
    assert list(found) == [ROOT / file]
    [one] = found[ROOT / file]
    start = {"line": 2, "character": 4}
    assert one["range"] == {"start": start, "end": {"line": 2, "character": end}}
    assert (one["severity"], one["message"], one["source"], one.get("code")) == (1, "wrong", form, code)


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "\n\0\n",
            "words\n",
            "{}",
            "[]",
            "[3, {}]",
            '{"file": 3}',
            '[{"messages": [1, {}]}]',
            "[" * 9999,
        ),
        '{"reason": "compiler-message", "message": 3}\n{"reason": "compiler-message", "message": {"spans": 4}}',
        "a.ts(99999999999,1): error TS1: x\na.go:1:99999999999: x\n",
    ],
)
def test_nonsense_is_read_without_a_failure(form: CheckFormat, text: str) -> None:
    for items in diagnostics(OUTPUTS[form], text, form, ROOT).values():
        for one in items:
            assert min(one["range"]["start"].values()) >= 0


def test_a_warning_is_a_warning() -> None:
    [[one]] = diagnostics(OUTPUTS["cargo"], cargo(level="warning", code=None), "cargo", ROOT).values()
    assert (one["severity"], "code" in one) == (2, False)
