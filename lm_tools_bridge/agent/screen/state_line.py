"""Writes the line above the prompt. Pure."""

from __future__ import annotations


def state_line(name: str, *, asks: bool, context: str = "") -> str:
    """The line with the model, whether calls are asked about, and how full the context is."""
    line = f"MODEL: {name} | HIL: {'ACTIVE' if asks else 'OFF'}"
    return f"{line} | {context}" if context else line


def model_name(provider: str, model: str) -> str:
    """How the line names a model, or that there is none."""
    return model or f"none ({provider})"
