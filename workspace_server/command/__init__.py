"""The workspace server's own command line: `python -I -m workspace_server.command VERB …`.

The verbs of `lmtb` that are about a workspace's content (trust, secrets, tool settings, environment) end
here, because only this house can read that content. They need no running manager. People type `lmtb`; it
passes the folders on. Each verb is a file here, loaded when used.

Exit codes: 0 done, 1 refused or nothing to do, 2 wrong usage.
"""
