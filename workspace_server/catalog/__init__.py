"""Merges the sources into one catalogue, names their tools, and builds the view of a request."""
