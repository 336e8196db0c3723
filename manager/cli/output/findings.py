"""The input of doctor's checks, read once, and the findings they yield."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lm_tools_bridge.terminal.views import Note, Tone, View
from manager.client import Control, ControlRefusal, ManagerFault, NoManager
from manager.configuration.paths import Paths
from manager.configuration.settings import ConfigurationError, Settings, load_settings


class Level(Enum):
    """How bad a finding is."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


_TONES: Final = {Level.OK: Tone.GOOD, Level.WARN: Tone.WARN, Level.FAIL: Tone.BAD}


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `hint` is the next step, `details` are further lines from outside."""

    level: Level
    check: str
    text: str
    hint: str = ""
    details: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The finding for programs."""
        return {
            "level": self.level.value,
            "check": self.check,
            "message": self.text,
            "hint": self.hint or None,
            "details": list(self.details),
        }


def shown(finding: Finding) -> tuple[View, ...]:
    """A finding as it is printed."""
    head = f"{finding.level.value.upper():4}  {finding.check}: {finding.text}"
    hint = (f"      -> {finding.hint}",) if finding.hint else ()
    return (Note(head, _TONES[finding.level]), *(f"        {line}" for line in finding.details), *hint)


@dataclass(frozen=True, slots=True)
class Situation:
    """What all checks start from.

    Attributes:
        paths: the user's files.
        settings: as a manager started now would have them, or the text of why it would refuse to start.
        status: the running manager's status, None where there is none.
        fault: why somebody on the control socket gave no usable answer.
        folder: in which clients are played; None for the current folder.
    """

    paths: Paths
    settings: Settings | str
    status: dict[str, Any] | None
    fault: str | None = None
    folder: Path | None = None

    @classmethod
    def of(cls, paths: Paths) -> Situation:
        """The situation now."""
        settings: Settings | str
        try:
            settings = load_settings(paths.config_file, os.environ, {})
        except ConfigurationError as error:
            settings = str(error)
        try:
            return cls(paths, settings, Control(paths.control_socket).get("/mcp/status"))
        except NoManager:
            return cls(paths, settings, None)
        except (ManagerFault, ControlRefusal) as error:
            return cls(paths, settings, None, str(error))

    @property
    def port(self) -> int | None:
        """The port of the running manager, else the one it would take; None where that is open."""
        address = self.status.get("address") if self.status is not None else None
        if isinstance(address, str):
            return urlsplit(address).port
        return self.settings.http_port or None if isinstance(self.settings, Settings) else None
