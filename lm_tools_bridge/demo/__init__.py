"""The verb demo: a narrated tour on sample workspaces."""
