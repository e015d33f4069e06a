"""The laboratory: published systems, rival strategies, comparison matchers, gossip in rounds, formulas, studies.

Everything here uses the documented extension interface of `tidings` and nothing else of it.
"""
