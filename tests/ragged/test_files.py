"""RaggedArrays on disk: what is written is what is read or mapped, and broken files are refused."""

import os

import numpy as np
import pytest

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor
from sklearn_attn.ragged import load_ragged, save_ragged


@pytest.fixture
def folder(tmp_path, ragged):
    save_ragged(tmp_path / "new" / "folder", ragged)
    return tmp_path / "new" / "folder"


@pytest.mark.parametrize("mmap_mode", [None, "r", "c"])
def test_round_trip(folder, ragged, mmap_mode):
    loaded = load_ragged(folder, mmap_mode=mmap_mode)
    np.testing.assert_array_equal(loaded.values, ragged.values)
    np.testing.assert_array_equal(loaded.offsets, ragged.offsets)
    assert isinstance(loaded.values, np.memmap) == (mmap_mode is not None)
    assert not loaded.values.flags.writeable


def test_any_form_and_missing_values_are_kept(tmp_path):
    save_ragged(tmp_path, [np.array([[1.0, np.nan]], dtype="f4"), np.zeros((2, 2), dtype="f4")])
    loaded = load_ragged(str(tmp_path))
    assert loaded.values.dtype == np.float32
    assert np.isnan(loaded.values[0, 1])


def test_a_fit_on_a_map_is_the_fit_in_memory(folder, ragged):
    y = np.arange(12.0)
    mapped = load_ragged(folder, mmap_mode="r")
    expected = SoftmaxAttentionRegressor(0.1).fit(ragged, y)
    model = SoftmaxAttentionRegressor(0.1).fit(mapped, y)
    np.testing.assert_array_equal(model.key_, expected.key_)
    np.testing.assert_array_equal(model.predict(mapped), expected.predict(ragged))


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"offsets\.npy"):
        load_ragged(tmp_path)


@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize("keep", [0, 40, 200])
def test_a_truncated_file(folder, mmap_mode, keep):
    os.truncate(folder / "values.npy", keep)
    with pytest.raises(ValueError, match=r"values\.npy is truncated"):
        load_ragged(folder, mmap_mode=mmap_mode)


def test_objects_are_never_unpickled(folder):
    np.save(folder / "values.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"no \.npy file of numbers"):
        load_ragged(folder)


@pytest.mark.parametrize("offsets", [[0, 5, 3, 45], [0, 10**9], [-1, 45], [0.0, 45.0]])
def test_offsets_that_lie(folder, offsets):
    np.save(folder / "offsets.npy", np.array(offsets))
    with pytest.raises(ValueError, match="holds no RaggedArray: offsets"):
        load_ragged(folder)


def test_files_written_by_hand(tmp_path):
    np.save(tmp_path / "values.npy", np.arange(8.0).reshape(4, 2))
    np.save(tmp_path / "offsets.npy", [0, 1, 4])
    assert isinstance(load_ragged(tmp_path), RaggedArray)
