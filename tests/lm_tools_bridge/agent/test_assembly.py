"""What the agent takes for the manager's word about a project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lm_tools_bridge.agent.assembly import says_trusted

HERE: dict[str, Any] = {"ok": True, "trusted": True, "root": "/srv/app"}


@pytest.mark.parametrize(("answer", "trusted"), [
    (HERE, True),
    ({**HERE, "root": "/srv"}, False),
    ({**HERE, "trusted": False}, False),
    ({**HERE, "ok": False}, False),
    ({}, False),
])  # fmt: skip
def test_trust_in_one_project_says_nothing_of_another(answer: dict[str, Any], trusted: bool) -> None:
    assert says_trusted(answer, Path("/srv/app")) is trusted
