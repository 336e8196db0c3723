"""Shows what verbs report, on a terminal or in a pipe: a verb makes views, `show.py` prints them.

Plain text where the output is piped: whole, without marks and quick. On a terminal, rich shows the same with
colours and marks, fitted to its width; only then is rich imported. Like `lmtb status`, the modules for plain
text import neither click nor dataclasses.
"""
