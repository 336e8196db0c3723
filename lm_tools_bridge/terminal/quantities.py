"""Writes durations, latencies and sizes as precisely as they matter to a person. Pure."""

from __future__ import annotations


def duration(seconds: object) -> str | None:
    """`42 s`, `3 min`, `2 h 5 min`, `4 d 1 h`; None if the value is no number."""
    if not isinstance(seconds, int | float):
        return None
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def latency(milliseconds: object) -> str | None:
    """`0.04 ms`, `12 ms`, `2.5 s`; None if the value is no number."""
    if not isinstance(milliseconds, int | float):
        return None
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds:.{2 if milliseconds < 1 else 1 if milliseconds < 10 else 0}f} ms"


def size(count: object) -> str | None:
    """Bytes as `12 MB`; None if the value is no number."""
    if not isinstance(count, int | float):
        return None
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
