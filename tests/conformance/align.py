"""Which entries of two lists belong together."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def align(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int | None, int | None]]:
    """Pairs of positions with equal keys, in order; ``None`` stands for an entry that only the other list has.

    The number of pairs is the largest possible (longest common subsequence). Where both lists have entries of their own
    at one place, those of ``right`` come first.
    """
    common = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            same = left[i] == right[j]
            common[i][j] = common[i + 1][j + 1] + 1 if same else max(common[i + 1][j], common[i][j + 1])
    pairs: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif common[i][j + 1] >= common[i + 1][j]:
            pairs.append((None, j))
            j += 1
        else:
            pairs.append((i, None))
            i += 1
    return pairs + [(None, k) for k in range(j, len(right))] + [(k, None) for k in range(i, len(left))]
