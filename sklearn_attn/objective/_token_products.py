"""The two products of a pass over X: tokens with k and v, and coefficients with tokens.

Both take four tokens at a time, so that the vectors they share are loaded once for four. The first reads
tokens from memory and the second from cache, where memory would wait: so each asks for half of the tokens
of the next block meanwhile, `ahead` tokens further, and a pass takes the longer of the two times and not
their sum.
"""

from .._compiled import jit
from ._lanes import LANES, fill, load, multiply_add, prefetch, store, total


@jit
def dot_rows(X, start, stop, a, b, out_a, out_b, ahead):
    """out_a[l] = X[l] . a and out_b[l] = X[l] . b for the tokens `start` to `stop`."""
    D = X.shape[1]
    row = start
    while row + 4 <= stop:
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = fill(0.0)
        for j in range(0, D, LANES):
            n = D - j
            a_j, b_j = load(a, j, n), load(b, j, n)
            x = load(X, (row, j), n)
            a0, b0 = multiply_add(x, a_j, a0), multiply_add(x, b_j, b0)
            x = load(X, (row + 1, j), n)
            a1, b1 = multiply_add(x, a_j, a1), multiply_add(x, b_j, b1)
            x = load(X, (row + 2, j), n)
            a2, b2 = multiply_add(x, a_j, a2), multiply_add(x, b_j, b2)
            x = load(X, (row + 3, j), n)
            a3, b3 = multiply_add(x, a_j, a3), multiply_add(x, b_j, b3)
            prefetch(X, (row + ahead, j))
            prefetch(X, (row + ahead + 1, j))
        i = row - start
        out_a[i], out_a[i + 1], out_a[i + 2], out_a[i + 3] = total(a0), total(a1), total(a2), total(a3)
        out_b[i], out_b[i + 1], out_b[i + 2], out_b[i + 3] = total(b0), total(b1), total(b2), total(b3)
        row += 4
    while row < stop:
        a0 = b0 = fill(0.0)
        for j in range(0, D, LANES):
            x = load(X, (row, j), D - j)
            a0, b0 = multiply_add(x, load(a, j, D - j), a0), multiply_add(x, load(b, j, D - j), b0)
        out_a[row - start], out_b[row - start] = total(a0), total(b0)
        row += 1


@jit
def add_rows(X, start, stop, a, b, sum_a, sum_b, ahead):
    """sum_a += sum_l a[l] X[l] and sum_b += sum_l b[l] X[l] over the tokens `start` to `stop`."""
    D = X.shape[1]
    row = start
    while row + 4 <= stop:
        i = row - start
        a0, a1, a2, a3 = fill(a[i]), fill(a[i + 1]), fill(a[i + 2]), fill(a[i + 3])
        b0, b1, b2, b3 = fill(b[i]), fill(b[i + 1]), fill(b[i + 2]), fill(b[i + 3])
        for j in range(0, D, LANES):
            n = D - j
            a_j, b_j = load(sum_a, j, n), load(sum_b, j, n)
            x = load(X, (row, j), n)
            a_j, b_j = multiply_add(x, a0, a_j), multiply_add(x, b0, b_j)
            x = load(X, (row + 1, j), n)
            a_j, b_j = multiply_add(x, a1, a_j), multiply_add(x, b1, b_j)
            x = load(X, (row + 2, j), n)
            a_j, b_j = multiply_add(x, a2, a_j), multiply_add(x, b2, b_j)
            x = load(X, (row + 3, j), n)
            a_j, b_j = multiply_add(x, a3, a_j), multiply_add(x, b3, b_j)
            store(sum_a, j, n, a_j)
            store(sum_b, j, n, b_j)
            prefetch(X, (row + ahead + 2, j))
            prefetch(X, (row + ahead + 3, j))
        row += 4
    while row < stop:
        a0, b0 = fill(a[row - start]), fill(b[row - start])
        for j in range(0, D, LANES):
            n = D - j
            x = load(X, (row, j), n)
            store(sum_a, j, n, multiply_add(x, a0, load(sum_a, j, n)))
            store(sum_b, j, n, multiply_add(x, b0, load(sum_b, j, n)))
        row += 1
