"""Membership of peers in published gossip protocols."""
