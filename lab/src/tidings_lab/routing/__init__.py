"""Routing strategies of published systems."""
