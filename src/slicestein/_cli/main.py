"""The command ``slicestein``: status 0 if all is well, 1 if samples are rejected, 2 for bad input."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from slicestein._checks import InputError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its status; bad input is told in one line on stderr."""
    try:
        from slicestein._cli.commands import app
    except ModuleNotFoundError as error:
        return _bad(f"the command line needs {error.name}: pip install 'slicestein[cli]'")
    try:
        return app(None if argv is None else list(argv), standalone_mode=False, prog_name="slicestein") or 0
    except (InputError, OSError) as error:
        return _bad(str(error))
    except Exception as error:
        if not hasattr(error, "format_message"):  # a usage error of typer has it; the rest are faults of ours
            raise
        return _bad(error.format_message())


def _bad(message: str) -> int:
    print("slicestein:", " ".join(message.split()), file=sys.stderr)
    return 2
