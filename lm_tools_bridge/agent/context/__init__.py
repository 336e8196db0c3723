"""Keeps what the model is sent within its context window, and tells what it costs. Pure."""
