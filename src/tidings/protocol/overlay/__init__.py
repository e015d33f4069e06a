"""Which links exist: one file per way."""
