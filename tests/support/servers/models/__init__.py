"""Servers of a scripted model for the agent, in the formats of its providers."""
