"""`lmtb_tool` under the name that scripts of an older program import."""

from lmtb_tool import *  # noqa: F403  found on the script's import path
