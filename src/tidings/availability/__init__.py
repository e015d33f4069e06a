"""Which events can still be delivered, and to whom: pure rules and the records that are persisted. No I/O."""
