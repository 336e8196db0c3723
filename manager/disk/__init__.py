"""What is read of folders on disk, in threads: marks, problems, identity."""
