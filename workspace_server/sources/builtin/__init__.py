"""The built-in tools and the source that offers them."""
