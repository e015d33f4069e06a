"""Getting back what was lost: one file per algorithm."""
