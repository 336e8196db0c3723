"""Looking at files on disk: change detection, identity, private files."""
