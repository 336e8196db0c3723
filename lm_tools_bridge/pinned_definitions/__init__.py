"""Holds a server to what its tools said when it was trusted, until the user accepts a change."""
