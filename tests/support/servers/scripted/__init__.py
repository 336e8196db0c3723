"""Workspace servers, managers, editors and peers in the test process, each of whose answers a test decides."""
