"""Defines what starts a language server, and its time limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lm_tools_bridge.code_intelligence.specification import ServerSpecification
from workspace_server.processes.child_process import Command


@dataclass(frozen=True, slots=True)
class Launch:
    """What starts a server.

    Attributes:
        specification: its kind.
        command: the resolved command line, its complete environment and its folder.
        folders: the workspace folders, absolute and link-free; at least one.
        version: of this product.
        hidden: values that stand in no text about how it ended.
        memory_limit_bytes, idle_s: in place of the usual limits.
        is_fenced: whether it runs behind the fence (see `fence.py`), not in the folder of its command.
    """

    specification: ServerSpecification
    command: Command
    folders: tuple[Path, ...]
    version: str
    hidden: tuple[str, ...] = ()
    memory_limit_bytes: int | None = None
    idle_s: float | None = None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds.

    Attributes:
        start_s: until the answer to `initialize`.
        request_s: for a request without a limit of its own.
        write_s: until the server has read a message.
        ping_s: until a sign of life, after a request was given up.
        busy_s: the same for a server that uses a processor meanwhile: some compute without a pause.
        polite_s: for `shutdown`, `exit` and the end of the process.
        term_s: between SIGTERM and SIGKILL.
    """

    start_s: float = 60.0
    request_s: float = 30.0
    write_s: float = 30.0
    ping_s: float = 10.0
    busy_s: float = 180.0
    polite_s: float = 2.0
    term_s: float = 2.0


USUAL: Final = Timeouts()
