"""A tool for which no server runs says what would help."""

from __future__ import annotations

from lm_tools_bridge.code_intelligence.kinds.scripts_and_formats import LUA
from lm_tools_bridge.code_intelligence.server import Unavailable
from lm_tools_bridge.code_intelligence.tools.asking import no_server


def test_a_tool_whose_server_waits_for_trust_says_who_decides_and_what_works_meanwhile() -> None:
    waits = Unavailable(LUA, "untrusted", "lua runs code of the project; to allow it: lmtb trust /p")
    text = str(no_server([waits], "a.lua"))
    assert "lmtb trust /p" in text
    assert "lm_findTextInFiles" in text


def test_a_tool_whose_server_is_missing_speaks_of_no_trust() -> None:
    text = str(no_server([Unavailable(LUA, "missing", "`lua` was not found")], "a.lua"))
    assert "lm_findTextInFiles" not in text
