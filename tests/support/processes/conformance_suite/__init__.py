"""The official conformance suite: its runs, the managers it is run against, and its report."""
