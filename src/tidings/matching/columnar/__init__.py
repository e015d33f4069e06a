"""The compiled columnar matcher: frozen arrays, a small delta, kernels over both.

Read in this order: `layout` (shared constants and records), `slots` (an attribute and a kind is a slot; text
as ordered positions), `programs` (questions to an event, derived attributes), `parts` (constraints as parts;
events packed), `rows` (filters as records), `freeze` (rows in order, buckets), `table` (a frozen table, and
its file), `merge` (the delta, and its merging into a new table), `walk` and `batches` (an event, a batch of
events), `matcher` (all of it together). Kernels: `grid_kernels` (the pair grid), `row_kernels` (programs,
questions, changes), `walk_kernels` (the walk). `warm` says whether there are any, and `numpy_matcher` does
without them.
"""
