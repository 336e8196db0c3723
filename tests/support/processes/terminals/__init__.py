"""Programs at pseudo-terminals, and what a person sees there."""
