"""The command ``slicestein`` as a process: its status, and one line for whatever goes wrong.

0: all is well, the samples may fit; 1: they do not fit; 2: bad input, or a file that cannot be written; 3: it cannot be
told; 70: a fault of ours; 130: interrupted; 141, as shells count, if nobody reads the answer any more.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from slicestein._checks import InputError
from slicestein._cli import interrupt

BAD_INPUT, FAULT = 2, 70  # 70 is EX_SOFTWARE of sysexits.h


def main() -> int:
    """Run the command of this process. Its signals and streams are ours to set."""
    interrupt.watch()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has gone ends us, as it ends other commands
    if sys.stdout is None:  # closed by the caller
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show is no fault
    status = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter would try once more
        return status if status == BAD_INPUT else _bad(_reason(error))
    return status


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its status; bad input is told in one line on stderr."""
    try:
        from slicestein._cli.commands import app
        from slicestein.gof.method import CorrelatedDraws
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        return _bad(f"the command line needs {error.name}: pip install typer rich")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("ignore", CorrelatedDraws)  # the result says so
            warnings.showwarning = _note
            if any("\0" in argument for argument in arguments):
                raise InputError("an argument holds a null byte: no path or name has one")
            return app(list(arguments), standalone_mode=False, prog_name="slicestein") or 0
    except InputError as error:
        return _bad(str(error))
    except OSError as error:
        return _bad(_reason(error))
    except Exception as error:
        if hasattr(error, "format_message"):  # a usage error of typer
            return _bad(error.format_message())
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            return _bad("the work does not fit into memory: thin the samples, or ask for fewer draws")
        return _fault(error)


def _bad(message: str) -> int:
    print("slicestein:", " ".join(message.split()), file=sys.stderr)
    return BAD_INPUT


def _fault(error: Exception) -> int:
    """What only we can mend."""
    traceback.print_exception(error)
    said = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"slicestein: internal error: {said}; please report it", file=sys.stderr)
    return FAULT


def _reason(error: OSError) -> str:
    """What is wrong with which file; a stream has no name."""
    what = "the answer cannot be written" if error.filename is None else error.filename
    return f"{what}: {error.strerror or error}"


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    """A warning as one line, without the place in the code that it comes from."""
    print("note:", " ".join(str(message).split()), file=sys.stderr)
