"""Reads a status as people do: workspaces with their servers, and problems. Used by verbs and the page."""
