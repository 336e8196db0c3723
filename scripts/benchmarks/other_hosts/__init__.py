"""Sections about other hosts: projects behind SSH, and members of a team over NATS."""
