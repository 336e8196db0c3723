"""Says that scripts cannot call models here. The older program with this module was a router of models."""

raise ImportError(
    "llmr.ai is not available: LM Tools Bridge calls no models."
    " Return the data from the script, and let the model that called it go on with it"
)
