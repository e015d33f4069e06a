"""Rules for which events can still be delivered to which subscription, and persisted records. No I/O."""
