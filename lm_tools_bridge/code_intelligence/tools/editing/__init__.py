"""The tools that change files: renaming and code actions."""
