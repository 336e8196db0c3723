"""Changes the files of coding agents: our entry in those of a user, servers in those of a project.

Pure functions on text decide what is written (`change.py`, `adoption/decision.py`); `workbench.py` reads and
writes the files of a user, `adoption/project_files.py` those of a project.
"""
