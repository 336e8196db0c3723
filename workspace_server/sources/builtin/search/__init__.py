"""Finds files and text in a workspace.

`engine` is the entry point: ripgrep (`ripgrep`) or Python alone (`fallback`) search the files that
`builtin/files` lists, in batches and processes that can be ended.
"""
