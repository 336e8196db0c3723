"""Requests in flight over one transport, in both directions: messages, events, answers, deadlines."""
