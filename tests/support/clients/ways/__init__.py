"""Ways in which people start agent programs, and what each agent's model is then answered by which project.

`table.py` has the ways, `entries.py` the entries for our manager, `scene.py` the folders and the programs. Used by
`scripts/ways-of-starting` and by `tests/agents/`.
"""
