"""A workspace server: collects the tools of one project and serves them to the manager, without sessions.

Beside the folders stand the modules of the process (start, fork, lifetime) and the types that all folders
use.
"""
