"""Delivery: to the clients of a broker, each matching event once and in order."""
