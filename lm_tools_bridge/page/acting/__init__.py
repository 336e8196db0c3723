"""What buttons of the page do, and who may press them."""
