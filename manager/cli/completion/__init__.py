"""The verb completion, and what a shell completes beyond verbs and options."""
