"""RaggedArrays on disk: what is written is what is read or mapped, and broken files are refused."""

import errno
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

from sklearn_attn import RaggedArray, SoftmaxAttentionRegressor
from sklearn_attn.ragged import _files, load_ragged, save_ragged


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


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_offsets_do_not_go_with_the_values_of_a_later_save(folder, ragged, monkeypatch, mmap_mode):
    load = _files._load

    def load_slowly(path, mode):
        loaded = load(path, mode)
        if path.name == "offsets.npy":
            save_ragged(folder, RaggedArray(ragged.values, ragged.offsets[[0, -1]]))
        return loaded

    monkeypatch.setattr(_files, "_load", load_slowly)
    with pytest.raises(OSError, match="was saved anew while it was loaded: load it again"):
        load_ragged(folder, mmap_mode=mmap_mode)
    monkeypatch.undo()
    assert len(load_ragged(folder)) == 1


def test_objects_are_never_unpickled(folder):
    np.save(folder / "values.npy", np.array([[{}]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"no \.npy file of numbers"):
        load_ragged(folder)


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("mmap_mode", [None, "r"])
@pytest.mark.parametrize("name", ["values.npy", "offsets.npy"])
@pytest.mark.parametrize("form", ["object array", "pickle", "archive"])
def test_what_a_pickle_would_do_is_not_done(folder, tmp_path, name, form, mmap_mode):
    mark = tmp_path / "mark"
    array = np.empty((1, 1), dtype=object)
    array[0, 0] = Payload(mark)
    with open(folder / name, "wb") as file:
        if form == "object array":
            np.save(file, array, allow_pickle=True)
        elif form == "pickle":
            pickle.dump(array[0, 0], file)
        else:
            np.savez(file, values=array, allow_pickle=True)
    with pytest.raises(ValueError, match=r"no \.npy file of numbers"):
        load_ragged(folder, mmap_mode=mmap_mode)
    assert not mark.exists()
    if form != "archive":  # the payload works where it is let
        (np.load if form == "object array" else _unpickle)(folder / name, allow_pickle=True)
        assert mark.exists()


def _unpickle(path, allow_pickle):
    with open(path, "rb") as file:
        pickle.load(file)


@pytest.mark.parametrize(
    "offsets",
    [[0, 5, 3, 45], [0, 10**9], [-1, 45], [1, 45], [0.0, 45.0], [0, np.nan, 45], [True, True],
     [0, 2**64 - 45, 45], [[0, 45]], 45],
)  # fmt: skip
def test_offsets_that_lie(folder, offsets):
    np.save(folder / "offsets.npy", np.array(offsets))
    with pytest.raises(ValueError, match="holds no RaggedArray: offsets"):
        load_ragged(folder)


@pytest.mark.parametrize("name", ["values.npy", "offsets.npy"])
def test_every_truncation_and_any_tail_is_refused(folder, name):
    data = (folder / name).read_bytes()
    for length in range(len(data)):
        (folder / name).write_bytes(data[:length])
        for mmap_mode in (None, "r"):
            with pytest.raises(ValueError, match=rf"{name} is truncated or no \.npy file of numbers"):
                load_ragged(folder, mmap_mode=mmap_mode)
    (folder / name).write_bytes(data + b"0")
    with pytest.raises(ValueError, match=r"bytes, but it has \d+$"):
        load_ragged(folder)


@pytest.mark.filterwarnings("ignore:Reading `.npy`:UserWarning")  # NumPy's, of headers from Python 2
def test_a_damaged_header_is_refused_or_means_the_same(folder, ragged):
    for name in ("values.npy", "offsets.npy"):
        data = (folder / name).read_bytes()
        for place in range(128):
            # An order of bytes that is the other one cannot be told from what a machine of that order writes.
            for byte in {*b"(9", data[place] ^ 1} - {ord(">")}:
                (folder / name).write_bytes(data[:place] + bytes([byte]) + data[place + 1 :])
                try:
                    loaded = load_ragged(folder)
                except ValueError:
                    continue
                np.testing.assert_array_equal(loaded.values, ragged.values)
                np.testing.assert_array_equal(loaded.offsets, ragged.offsets)
        (folder / name).write_bytes(data)


def test_a_header_that_promises_more_than_there_is_takes_no_memory(folder):
    with open(folder / "values.npy", "r+b") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (45 * 10**12, 3)}
        np.lib.format.write_array_header_1_0(file, header)
    with pytest.raises(ValueError, match=r"make \d+ bytes, but it has"):
        load_ragged(folder)


def test_what_is_mapped_can_be_saved_where_it_is_mapped_from(folder, ragged):
    mapped = load_ragged(folder, mmap_mode="r")
    save_ragged(folder, mapped[::-1])
    save_ragged(folder, mapped)  # its own file: written in place it would be cut while it is read
    np.testing.assert_array_equal(mapped.values, ragged.values)
    np.testing.assert_array_equal(load_ragged(folder).values, ragged.values)
    assert sorted(os.listdir(folder)) == ["offsets.npy", "values.npy"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full on this system")
def test_a_disk_without_room_for_the_last_bytes_is_an_error(tmp_path, ragged, monkeypatch):
    real_open = open
    monkeypatch.setattr("builtins.open", lambda path, mode: real_open("/dev/full", "wb"))
    with pytest.raises(OSError, match=r"No space left on device: '.*values\.npy") as caught:
        save_ragged(tmp_path, ragged)
    assert caught.value.errno == errno.ENOSPC


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of file sizes on this system")
@pytest.mark.parametrize("room", [0, 100, 200, 1207])
@pytest.mark.parametrize("file", ["values.npy", "offsets.npy"])
def test_what_was_there_stays_where_there_is_no_room(folder, ragged, room, file):
    import resource

    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    if file == "offsets.npy":  # twice as large as the values
        ragged, room = RaggedArray(np.zeros((400, 1), dtype=np.float32), np.arange(401)), 2000 + room
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(OSError, match=rf"File too large: '.*{file}"):
            save_ragged(folder, ragged)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before


@pytest.mark.parametrize("fails", ["the first", "the second"])
def test_an_interrupted_save_never_mixes_two(folder, ragged, monkeypatch, fails):
    replace, calls = os.replace, []

    def interrupted(*paths):
        calls.append(paths)
        if len(calls) == ["the first", "the second"].index(fails) + 1:
            raise KeyboardInterrupt
        replace(*paths)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_ragged(folder, RaggedArray(ragged.values + 1.0, [0, 1, 45]))
    with pytest.raises(FileNotFoundError, match=r"offsets\.npy"):
        load_ragged(folder)
    assert set(os.listdir(folder)) == {"values.npy"}


@pytest.mark.parametrize("mmap_mode", ["w+", "r+", "w"])
def test_a_mode_that_writes_is_refused(folder, mmap_mode):
    with pytest.raises(ValueError, match="mmap_mode must be None, 'r' or 'c'"):
        load_ragged(folder, mmap_mode=mmap_mode)
    load_ragged(folder)


def test_files_written_by_hand(tmp_path):
    np.save(tmp_path / "values.npy", np.arange(8.0).reshape(4, 2))
    np.save(tmp_path / "offsets.npy", [0, 1, 4])
    assert isinstance(load_ragged(tmp_path), RaggedArray)
