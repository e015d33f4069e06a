"""Assignment of subscriptions to brokers: one file per policy."""
