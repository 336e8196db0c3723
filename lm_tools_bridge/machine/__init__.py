"""What both programs ask of the machine they run on: back-off, private files, processes, peers, log lines.

Shared by the manager and the workspace server, which never import each other.
"""
