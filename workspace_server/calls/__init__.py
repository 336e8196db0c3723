"""Runs tool calls: from a request, through gates and argument checks, to a source and back."""
