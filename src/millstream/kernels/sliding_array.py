"""An array that grows at the right and shrinks at the left: elements are known by how many came before them, for ever."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_SMALLEST = 64


class SlidingArray:
    """Appending and dropping cost as much as what is appended, on average."""

    def __init__(self, dtype: npt.DTypeLike = np.int64, width: int | None = None) -> None:
        self._data: npt.NDArray[Any] = np.empty(_SMALLEST if width is None else (_SMALLEST, width), dtype)
        self._begin = self._end = 0  # in the data
        self.first = 0
        """The number of the first element that is there."""

    def __len__(self) -> int:
        return self._end - self._begin

    @property
    def stop(self) -> int:
        """The number that the next element will have."""
        return self.first + len(self)

    @property
    def values(self) -> npt.NDArray[Any]:
        """All elements that are there; a view, until the next change."""
        return self._data[self._begin : self._end]

    def append(self, values: npt.NDArray[Any]) -> None:
        self.extend(len(values))[:] = values

    def extend(self, many: int) -> npt.NDArray[Any]:
        """Room for so many more, to be filled."""
        if self._end + many > len(self._data):
            self._move(many)
        self._end += many
        return self._data[self._end - many : self._end]

    def drop_before(self, number: int) -> int:
        """Let go of the elements before this one; how many there were."""
        many = min(max(number - self.first, 0), len(self))
        self._begin += many
        self.first += many
        return many

    def _move(self, many: int) -> None:
        """To where there is room for as many again as there are."""
        size = max(_SMALLEST, 2 * (len(self) + many))
        data = np.empty((size, *self._data.shape[1:]), self._data.dtype)
        data[: len(self)] = self.values
        self._begin, self._end, self._data = 0, len(self), data
