"""Assignments of subscriptions to brokers in published systems."""
