"""Which files a search sees: patterns, ignore files, settings of editors, cached folders and lists."""
