"""The tutorial, typed line by line by a user with an empty home folder."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import manager
from scripts.walkthrough.page import Command, File, steps
from scripts.walkthrough.sandbox import sandbox

ROOT = Path(manager.__file__).parents[1]
TUTORIAL = ROOT / "docs/tutorial.md"
pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo terminal"),
    pytest.mark.walkthroughs,
]


@pytest.mark.timeout(240)
def test_each_step_of_the_tutorial_does_what_it_says() -> None:
    with sandbox() as user:
        for step in steps(TUTORIAL):
            if isinstance(step, File):
                user.write(step.path, step.text)
            elif step.needs is None or shutil.which(step.needs):
                done = user.type(user.as_here(step.line), step.answer)
                assert (done.code != 0) is step.fails, f"$ {step.line}\n{done.text}"
                assert step.is_met_by(done.text), f"$ {step.line}\n{done.text}\nexpected:\n{step.expected}"
        assert user.processes() == []
        assert not (user.home / ".local/state/lm-tools-bridge").exists()


@pytest.mark.always
@pytest.mark.parametrize(
    ("expected", "printed", "is_met"),
    [
        ("one\n", "one\n", True),
        ("a   b\n", "a b  \n", True),
        ("one\n", "one\ntwo\n", False),
        ("one\n…\n", "one\ntwo\nthree\n", True),
        ("…\nthree\n", "one\ntwo\nthree\n", True),
        ("pid …, up\n", "pid 17, up\n", True),
        ("pid …\n", "port 17\n", False),
        ("a long line\n", "a long\nline\n", True),
        ("", "anything\n", False),
    ],
)
def test_output_is_compared_but_for_what_differs(expected: str, printed: str, is_met: bool) -> None:
    assert Command("x", expected).is_met_by(printed) is is_met
