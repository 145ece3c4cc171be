"""The rows of assets by the decoder's numbers."""

import numpy as np

from agent.windows.row_index import UNSEEN, RowIndex


class Rows(dict[str, int]):
    """Counts how often a name is looked up."""

    lookups = 0

    def get(self, name: str, default: int | None = None) -> int | None:  # type: ignore[override]
        self.lookups += 1
        return super().get(name, default)


def test_a_known_asset_is_looked_up_by_name_once() -> None:
    index, names, rows = RowIndex(), ["a", "b"], Rows(b=7)
    assert index.find(names, np.array([1, 1, 1]), rows).tolist() == [7, 7, 7]
    assert index.find(names, np.array([1, 1]), rows).tolist() == [7, 7]
    assert rows.lookups == 1


def test_an_asset_without_a_row_is_unseen_until_it_has_one() -> None:
    index, names, rows = RowIndex(), ["a", "b"], Rows(b=7)
    assert index.find(names, np.array([1, 0]), rows).tolist() == [7, UNSEEN]
    rows["a"] = 3
    names.append("c")
    assert index.find(names, np.array([2, 0, 1]), rows).tolist() == [UNSEEN, 3, 7]


def test_another_list_of_names_is_looked_up_afresh() -> None:
    index = RowIndex()
    assert index.find(["a", "b"], np.array([0]), Rows(a=1)).tolist() == [1]
    assert index.find(["b"], np.array([0]), Rows(b=2)).tolist() == [2]
    index.clear()
    assert index.find(["b"], np.array([0]), Rows(b=4)).tolist() == [4]
