"""Matchers to compare the product's matcher with."""
