"""Arguments and results of recorded calls: where and how long they are kept, and what is hidden in them."""
