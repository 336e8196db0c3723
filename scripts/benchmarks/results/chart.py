"""Draws line charts as SVG: a grid of panels, logarithmic x axes, one y scale for each row. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from scripts.benchmarks.results.table import figure

WIDTH, HEIGHT = 340.0, 190.0
"""The size of the drawing area of a panel."""
LEFT, TOP, GAP_X, GAP_Y, BOTTOM = 64.0, 78.0, 72.0, 66.0, 44.0
RIGHT = 24.0
TICKS = 4
INSET = 22.0
"""The distance from the edges of the drawing area to the first and the last point."""

STYLE = """
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #57606a }
.page { fill: #ffffff } .title { font-size: 16px; font-weight: 600; fill: #1f2328 }
.name { font-size: 13px; font-weight: 600; fill: #1f2328 } .value { font-size: 11px; fill: #0b62c4 }
.rule { stroke: #d8dee4; stroke-width: 1 } .base { stroke: #8c959f; stroke-width: 1 }
.line { fill: none; stroke: #0b62c4; stroke-width: 2.5; stroke-linejoin: round; stroke-linecap: round }
.dot { fill: #0b62c4 } .muted.line { stroke: #9aa4af; stroke-width: 1.5; stroke-dasharray: 5 4 }
.muted.dot { fill: #9aa4af } .area { fill: #0b62c4; opacity: .08 }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 } .page { fill: #0d1117 } .title, .name { fill: #f0f6fc } .value { fill: #6cb0ff }
  .rule { stroke: #262c36 } .base { stroke: #656c76 } .line { stroke: #4493f8 } .dot, .area { fill: #4493f8 }
  .muted.line { stroke: #656c76 } .muted.dot { fill: #656c76 }
}
"""

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A series of points; a muted one is drawn thin and grey, for comparison."""

    name: str
    points: Sequence[Point]
    muted: bool = False


@dataclass(frozen=True)
class Panel:
    """One chart: the names of the y and x axes, and the lines."""

    y_label: str
    x_label: str
    lines: Sequence[Line]


@dataclass(frozen=True)
class Scale:
    """Maps values to positions in a panel whose upper left corner is at (x, y)."""

    x: float
    y: float
    min_x: float
    max_x: float
    max_y: float

    def at(self, point: Point) -> Point:
        """The position at which a point is drawn."""
        span = math.log(self.max_x / self.min_x) if self.max_x > self.min_x else 1.0
        share = math.log(point[0] / self.min_x) / span
        return self.x + INSET + share * (WIDTH - 2 * INSET), self.y + HEIGHT * (1 - point[1] / self.max_y)


def rounded_up(value: float) -> float:
    """The smallest round number that is not below the value and has round quarters."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(
        step * unit for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * unit >= value * 0.999
    )


def grid(title: str, rows: Sequence[Sequence[Panel]]) -> str:
    """The SVG document: a title, a legend and the rows of panels."""
    columns = max(len(row) for row in rows)
    width = LEFT + columns * WIDTH + (columns - 1) * GAP_X + RIGHT
    height = TOP + len(rows) * HEIGHT + (len(rows) - 1) * GAP_Y + BOTTOM
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect class="page" width="{width:g}" height="{height:g}" rx="8"/>',
        _text(LEFT, 30, title, "title"),
        *_legend(width - RIGHT, 30, rows[0][0].lines),
    ]
    for below, row in enumerate(rows):
        max_y = rounded_up(max(point[1] for panel in row for line in panel.lines for point in line.points))
        for right, panel in enumerate(row):
            numbers = [point[0] for line in panel.lines for point in line.points]
            x, y = LEFT + right * (WIDTH + GAP_X), TOP + below * (HEIGHT + GAP_Y)
            drawn += _panel(panel, Scale(x, y, min(numbers), max(numbers), max_y))
    return "\n".join([*drawn, "</svg>", ""])


def _panel(panel: Panel, scale: Scale) -> list[str]:
    drawn = [_text(scale.x, scale.y - 14, f"{panel.y_label}, by {panel.x_label}", "name")]
    for tick in range(TICKS + 1):
        value = scale.max_y * tick / TICKS
        y = scale.y + HEIGHT * (1 - tick / TICKS)
        drawn.append(f'<path class="{"rule" if tick else "base"}" d="M{scale.x:.1f} {y:.1f}h{WIDTH:g}"/>')
        drawn.append(_text(scale.x - 8, y + 4, f"{value:,.10g}", anchor="end"))
    for number in sorted({point[0] for line in panel.lines for point in line.points}):
        x, _ = scale.at((number, 0))
        drawn.append(_text(x, scale.y + HEIGHT + 18, f"{number:,.10g}", anchor="middle"))
    for line in sorted(panel.lines, key=lambda one: not one.muted):
        drawn += _line(line, scale)
    return drawn


def _line(line: Line, scale: Scale) -> list[str]:
    places = [scale.at(point) for point in line.points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    muted = "muted " * line.muted
    drawn = [f'<path class="{muted}line" d="{path}"/>']
    if not line.muted:
        ground = scale.y + HEIGHT
        drawn.insert(
            0, f'<path class="area" d="{path}L{places[-1][0]:.1f} {ground:.1f}H{places[0][0]:.1f}Z"/>'
        )
        drawn += [
            _text(x, y - 9, figure(value), "value", anchor="middle")
            for (x, y), (_, value) in zip(places, line.points, strict=True)
        ]
    return drawn + [
        f'<circle class="{muted}dot" cx="{x:.1f}" cy="{y:.1f}" r="{2.5 if muted else 3.5}"/>'
        for x, y in places
    ]


def _legend(right: float, y: float, lines: Sequence[Line]) -> list[str]:
    drawn, x = [], right
    for line in reversed(lines):
        x -= 7 * len(line.name) + 46
        drawn.append(f'<path class="{"muted " * line.muted}line" d="M{x:.1f} {y - 4:.1f}h22"/>')
        drawn.append(_text(x + 28, y, line.name))
    return drawn


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    named = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{named}>{escape(text)}</text>'
