"""Where a subscription lives: one file per policy."""
