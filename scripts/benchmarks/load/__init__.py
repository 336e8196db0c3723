"""Load on a target: requests sent with wrk, targets measured in turns, thousands of open sessions."""
