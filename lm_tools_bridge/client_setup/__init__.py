"""Changes the files of coding agents: our entry in those of a user, servers in those of a project.

Pure functions on text decide what is written (`change.py`, `adoption/decision.py`). `workbench.py` reads
and writes our entries in a user's files, `adoption/adoption_files.py` the servers of a project or a user.
"""
