"""Gateways: foreign protocols in front of a broker.

A gateway reads a foreign protocol, authenticates its clients (`proving.py`), and admits them as clients like any
other (`runtime/guests.py`): the same permissions, quotas and bounds hold. A gateway makes no decision itself.
"""
