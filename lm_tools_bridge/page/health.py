"""Reads and renders the health of the manager: loop lag, memory, open files, versions, and charts as SVG."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from lm_tools_bridge.machine.own_process import OpenFiles, open_files
from lm_tools_bridge.page.html import facts, state, text
from lm_tools_bridge.text.quantities import latency, size
from manager.admin.measures import EVERY_S, MOST_MOMENTS, Moment
from manager.status_reading import objects

# Units of the drawing, which is stretched to its place: a moment is two wide, so that a peak stays a line.
_STEP: Final = 2
_WIDTH: Final = (MOST_MOMENTS - 1) * _STEP
_HEIGHT: Final = 30

Series = Sequence[float | None]


def chart(title: str, values: Series, format_value: Callable[[float], object]) -> str:
    """A line over time, the last value at the right, with the last and the highest value as text.

    Args:
        values: one for each moment, the oldest first; None where nothing was measured.
        format_value: writes a value with its unit.
    """
    measured = [value for value in values if value is not None]
    if not measured:
        return f"<figure><figcaption>{title}: –</figcaption></figure>"
    last = "–" if values[-1] is None else text(format_value(values[-1]))
    most = text(format_value(max(measured)))
    lines = "".join(f'<polyline points="{points}"/>' for points in _lines(values, max(measured)))
    return (
        f"<figure><figcaption>{title}: <strong>{last}</strong>, at most {most}</figcaption>"
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{title}, the last ten minutes">{lines}</svg></figure>'
    )


def _lines(values: Series, most: float) -> Iterator[str]:
    """The points of each run of known values; a run of one value is a short line."""
    run: list[tuple[int, float]] = []
    for place, value in enumerate((*values, None), MOST_MOMENTS - len(values)):
        if value is not None:
            run.append((place, value))
        elif run:
            ends = run if len(run) > 1 else [(max(0, run[0][0] - 1), run[0][1]), *run]
            yield " ".join(
                f"{at * _STEP},{_HEIGHT - 1 - (_HEIGHT - 2) * _share(v, most):.1f}" for at, v in ends
            )
            run = []


def _share(value: float, most: float) -> float:
    return value / most if most > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the manager.

    Attributes:
        moments: of the last ten minutes, the oldest first.
        files: its open files beside their limit; None if the system does not tell.
        python: the version that runs it.
        installed: the version of the installed program; None if unknown.
        outdated: servers that run another version.
    """

    moments: Sequence[Moment] = ()
    files: OpenFiles | None = None
    python: str = ""
    installed: str | None = None
    outdated: int = 0


def read_health(status: Mapping[str, Any], moments: Sequence[Moment]) -> Health:
    """The health now.

    Args:
        status: what `/mcp/status` shows.
    """
    installation = status.get("installation")
    installed = installation.get("version") if isinstance(installation, Mapping) else None
    outdated = sum(1 for instance in objects(status, "instanceDetails") if instance.get("outdated"))
    return Health(moments, open_files(), platform.python_version(), installed, outdated)


def health_html(health: Health) -> str:
    """The facts and charts."""
    lags = [moment.lag_s for moment in health.moments]
    rows = {
        "Longest delay of the event loop": text(latency(max(lags) * 1000) if lags else None),
        "Open files": text(_files(health.files)),
        "Installed version": text(health.installed),
        "Python": text(health.python),
        "Servers of another version": state(f"outdated: {health.outdated}") if health.outdated else "none",
    }
    charts = f'<div class="charts">{_charts(health.moments)}</div>'
    return f"<h2>Health, the last ten minutes</h2>{facts(rows)}{charts}"


def _files(files: OpenFiles | None) -> str | None:
    if files is None:
        return None
    return f"{files.used}" if files.limit is None else f"{files.used} of {files.limit:,}"


def _charts(moments: Sequence[Moment]) -> str:
    return "".join(
        (
            chart(
                "Calls per second", [moment.calls / EVERY_S for moment in moments], lambda rate: f"{rate:.1f}"
            ),
            chart(
                "Errors per second",
                [moment.errors / EVERY_S for moment in moments],
                lambda rate: f"{rate:.1f}",
            ),
            chart("Time of servers (p99)", [_ms(moment.p99_s) for moment in moments], latency),
            chart("Memory", [moment.memory for moment in moments], size),
        )
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
