"""Gateways: foreign protocols in front of a broker.

A gateway reads a foreign protocol, authenticates its clients (`authentication.py`), and admits them as
clients like any other (`runtime/local_clients.py`): the same permissions, quotas and bounds hold. A gateway
makes no decision itself.
"""
