"""The tools for all languages: diagnostics, symbols, references, hierarchies, renaming, code actions."""
