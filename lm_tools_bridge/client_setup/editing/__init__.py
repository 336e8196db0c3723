"""Changes single members in the text of JSON and TOML files, and replaces files whole."""
