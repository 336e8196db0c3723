"""Keys of model providers: where they are looked up, in which order, and where one is stored."""
