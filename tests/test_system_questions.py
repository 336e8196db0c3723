"""The parts ask `lm_tools_bridge/machine` for what the systems do differently, and not which system this is."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("lm_tools_bridge", "manager", "workspace_server")
SEAM = "lm_tools_bridge/machine/"
QUESTIONS = {("sys", "platform"), ("os", "name"), ("platform", "system")}
MOST = 51
"""Questions outside of the seam, which may only become fewer: lower the figure."""


def questions_in(source: str) -> list[int]:
    """The lines that ask which system this is."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in QUESTIONS
    ]


def test_the_question_is_recognised_in_each_form() -> None:
    assert questions_in("import os, platform, sys\nsys.platform\nos.name\nplatform.system()\n") == [2, 3, 4]
    assert questions_in("import sys\nsys.path\npath.name\n") == []


def test_questions_which_system_this_is_become_fewer() -> None:
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    names = ((file.relative_to(ROOT).as_posix(), file) for file in files)
    counted = Counter(
        {
            name: len(questions_in(file.read_text("utf-8")))
            for name, file in names
            if not name.startswith(SEAM)
        }
    )
    text = ", ".join(f"{name}: {count}" for name, count in counted.most_common() if count)
    assert counted.total() <= MOST, f"give the facility a function in {SEAM}; now {text}"
    assert counted.total() == MOST, f"{counted.total()} questions: write this figure into MOST"
