"""Numba loops over flat arrays, for what must go row by row: hashing, key codes, running totals, ordered multisets.

Kernels know Arrow's buffers and the shape of signed batches, nothing of plans or operators.
"""
