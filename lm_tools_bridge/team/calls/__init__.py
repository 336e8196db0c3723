"""Calls from one manager of a team to another: their messages, their admission and what an offer exposes."""
