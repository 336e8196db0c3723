"""Builds and checks everything that a release consists of. Uploads nothing."""
