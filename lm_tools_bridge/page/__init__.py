"""The page for browsers: what needs a person, projects, calls and clients, with buttons for who may act."""
