"""Managers in the test process and as processes of their own, and what they leave behind."""
