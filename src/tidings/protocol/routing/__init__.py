"""Which links an event takes: one file per way."""
