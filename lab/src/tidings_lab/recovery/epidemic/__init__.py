"""Epidemic recovery (Costa et al. 2003): what links lose comes back by gossip."""
