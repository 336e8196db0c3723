"""The workspace server's own command line: `python -I -m workspace_server.command VERB …`.

It carries out the verbs of `lmtb` about a workspace's content (trust, secrets, tool settings, environment),
because only this package can read that content. It needs no running manager. People type `lmtb`, which passes
the user's folders on. Each verb is a module here, loaded when used.

Exit codes: 0 done, 1 refused or nothing to do, 2 wrong usage.
"""
