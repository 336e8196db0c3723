"""Compares an answer of a language server with the words in the project's files."""
