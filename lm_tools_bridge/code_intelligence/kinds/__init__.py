"""The kinds of language servers: what is known of each, which a project needs, and where its program is."""
