"""Calls that can outlive their request, because they wait for input from their client."""
