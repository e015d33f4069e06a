"""Routing of events over links: one file per algorithm."""
