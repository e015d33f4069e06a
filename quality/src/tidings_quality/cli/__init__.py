"""The command `tidings quality`, and its act of `tidings demo`."""
