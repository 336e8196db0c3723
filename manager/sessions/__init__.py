"""State that only clients with sessions have: streams, replay, subscriptions, input requests."""
