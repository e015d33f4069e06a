"""Open doors: other people's protocols in front of a broker.

A gateway reads somebody's protocol, proves who he is (`proving.py`), and lets him in as a client like any
other (`runtime/guests.py`): the same permissions, quotas and bounds hold. It decides nothing itself.
"""
