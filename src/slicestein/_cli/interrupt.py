"""Ctrl-C ends the command at once with one line, whatever the main thread is doing.

Python runs its own handlers between two steps of the main thread, so that a compilation or a large product in native
code would keep it waiting. The half of a handler that is in C writes to a pipe at once; a thread that reads it ends the
process, without the teardown of an interpreter whose native threads are still at work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from slicestein.rows.writing import UNFINISHED

STATUS = 130  # 128 + SIGINT, as shells count
CHILDREN: list[subprocess.Popen[str]] = []  # are interrupted too


def watch() -> None:
    """From now on SIGINT ends the process; where the caller has it ignored it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    threading.Thread(target=_wait, args=(read,), daemon=True).start()


def _wait(pipe: int) -> None:
    while os.read(pipe, 1) != bytes([signal.SIGINT]):
        pass  # another signal for which somebody has set a handler
    for child in CHILDREN:
        child.send_signal(signal.SIGINT)
    for path in list(UNFINISHED):
        path.unlink(missing_ok=True)
    newline = "\n" if os.isatty(2) else ""  # the terminal shows ^C
    os.write(2, f"{newline}slicestein: interrupted\n".encode())
    os._exit(STATUS)
