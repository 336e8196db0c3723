"""Recorded calls on the page: a list with filters, one call, and figures of each tool and client."""
