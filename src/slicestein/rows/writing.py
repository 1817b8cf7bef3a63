"""Files are written whole or not at all: to a temporary file beside the place, which then takes its name."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from slicestein._checks import InputError

# Temporary files of this moment: whoever ends the process without unwinding it removes them.
UNFINISHED: set[Path] = set()


def check_place(path: str | os.PathLike[str]) -> None:
    """Require, before any work, that a file can be written there: a file is made beside the place and removed."""
    place = _real(path)
    try:
        exists = _exists(place)
        if place.is_dir():
            raise InputError(f"{path}: is a folder: name a file")
        if exists and not os.access(place, os.W_OK):
            raise InputError(f"{path}: may not be written to: name another file")
        temporary = _beside(place)
        temporary.open("xb").close()
        temporary.unlink()
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written there ({error.strerror}): name a file in a folder that exists"
        ) from None


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file, or replace it; if that fails the place is as it was before."""
    place = _real(path)
    temporary = _beside(place)
    UNFINISHED.add(temporary)
    try:
        with temporary.open("xb") as file:  # with the permissions that any new file gets
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(place)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        UNFINISHED.discard(temporary)


def _real(path: str | os.PathLike[str]) -> Path:
    """Through links: what a link points to is replaced, not the link."""
    return Path(os.path.realpath(path))


def _exists(place: Path) -> bool:
    """As `Path.exists`, but a place that cannot be looked at is an error."""
    try:
        place.stat()
    except FileNotFoundError:
        return False
    return True


def _beside(place: Path) -> Path:
    return place.with_name(f".slicestein-{uuid.uuid4().hex}.part")
