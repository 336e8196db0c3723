"""The tool `lm_getDiagnostics`, and what it needs: changed files, the problems of the editor, their order."""
