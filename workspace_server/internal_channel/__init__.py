"""Serves secrets, provider configuration and all tools to the user's own programs, on a unix socket."""
