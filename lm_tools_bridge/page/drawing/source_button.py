"""Chooses the button for a source that is down. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lm_tools_bridge.page.drawing.html import Action
from manager.status_reading.source_problems import is_login_here


def source_action(source: Mapping[str, Any], root: str) -> Action:
    """The button for a source that is down: sign in where that is what is missing, else try again.

    Logins are kept on the host of the project, so one signs in there.
    """
    name = str(source.get("id"))
    members = (("root", root), ("source", name))
    if source.get("state") == "auth_required" and name.startswith("remote:") and is_login_here(root):
        return Action("sign-in", "Sign in", members, name)
    return Action("retry-source", "Retry", members, name)
