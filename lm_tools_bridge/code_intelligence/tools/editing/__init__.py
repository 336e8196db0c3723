"""Changes files: renaming, code actions, and the edits of a server, applied whole or not at all."""
