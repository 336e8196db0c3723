"""Decides how requests are routed. Pure: no clock, no I/O, no randomness; facts are arguments."""
