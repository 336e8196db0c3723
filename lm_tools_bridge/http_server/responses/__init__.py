"""What responses need on their way: rendered heads, the field Date, back-pressure."""
