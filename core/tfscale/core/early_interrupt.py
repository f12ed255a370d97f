"""Import that lets ctrl-C end a program silently while the program still imports its other modules.

Until a program's `main` runs, Python would answer with a traceback from the midst of some import. A program imports
this module as early as it can, and calls `restore` when its imports are done.
"""

import signal
import threading

_HANDLES = threading.current_thread() is threading.main_thread()
_BEFORE = signal.getsignal(signal.SIGINT)

if _HANDLES and _BEFORE is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def restore() -> None:
    """Let ctrl-C raise KeyboardInterrupt again."""
    if _HANDLES and _BEFORE is signal.default_int_handler:
        signal.signal(signal.SIGINT, _BEFORE)
