"""Who is there: one file per way to know."""
