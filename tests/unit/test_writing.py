"""A file is written whole or not at all, and whether it can be is known before the work."""

import os
import resource
import stat

import pytest

from slicestein._checks import InputError
from slicestein.rows import writing
from slicestein.rows.writing import check_place, write_whole


def test_the_content_comes_with_the_permissions_of_a_new_file(tmp_path):
    write_whole(tmp_path / "new", b"content")
    (tmp_path / "other").touch()
    assert (tmp_path / "new").read_bytes() == b"content"
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("new", "other")}
    assert len(modes) == 1


@pytest.mark.parametrize("before", [None, b"old"])
def test_a_write_that_stops_half_way_leaves_what_was_there(tmp_path, before):
    """A limit on the size of files stands for a full disk: the first bytes are written, the last are not."""
    path = tmp_path / "a"
    if before is not None:
        path.write_bytes(before)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_whole(path, bytes(1_000_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["a"])
    assert before is None or path.read_bytes() == before


def test_a_link_is_followed(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/a")
    check_place(tmp_path / "link")
    write_whole(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "a").read_bytes() == b"content"


def test_an_unfinished_file_is_known_to_whoever_ends_the_process(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(writing.UNFINISHED))
    write_whole(tmp_path / "a", b"content")
    assert [path.parent for path in seen] == [tmp_path]
    assert not writing.UNFINISHED


def test_the_check_leaves_nothing_behind(tmp_path):
    check_place(tmp_path / ("n" * 250))
    assert list(tmp_path.iterdir()) == []


FAULTS = [
    ("", "is a folder"),
    ("missing/a", "cannot be written there .No such file or directory.: name a file in a folder that exists"),
    ("file/a", "cannot be written there .Not a directory"),
    ("loop", "cannot be written there .Too many"),
    ("n" * 300, "cannot be written there .File name too long"),
]


@pytest.mark.parametrize(("name", "message"), FAULTS)
def test_a_place_that_cannot_be_written_is_told(tmp_path, name, message):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InputError, match=message):
        check_place(tmp_path / name)


def test_a_file_that_may_not_be_changed_is_told(tmp_path, monkeypatch):
    (tmp_path / "a").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as for any user but root
    with pytest.raises(InputError, match="may not be written to: name another file"):
        check_place(tmp_path / "a")
