"""Checks what configured clients would see: plays each one against the running manager."""
