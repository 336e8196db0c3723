"""Implements the workspace server's own command line: `python -I -m workspace_server.command VERB …`.

`lmtb` runs it for the verbs about a workspace's content (trust, secrets, tool settings, environment), because
only this package can read that content, and passes the user's folders. No manager needs to run. Each verb is
a module here, imported when used.

Exit codes: 0 done, 1 refused or nothing to do, 2 wrong usage.
"""
