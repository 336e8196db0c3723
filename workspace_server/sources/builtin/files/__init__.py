"""Which files a search or a list sees: patterns, ignore files, editors' settings, cached lists of folders."""
