"""Runs compilers and linters that check a project once and end, as providers of diagnostics."""
