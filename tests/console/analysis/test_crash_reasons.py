"""Small programs that end badly, and the sentence about each: all are run, and their output is what an agent sends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from tfscale.console.analysis.finding_kinds import first_step
from tfscale.console.analysis.observed.observed_task import ObservedTask
from tfscale.console.analysis.tasks.crashes import CrashWatch
from tfscale.core.failure.clues import last_words
from tfscale.core.records.task_status import Exit, TaskStatus

View = Callable[..., ObservedTask]
Died = Callable[..., TaskStatus]


@dataclass(frozen=True)
class End:
    """A program, and what must be told of its end."""

    name: str
    program: str
    says: str
    """End of the sentence."""
    do: str = "mend what it says"
    """Begin of the first thing to do."""
    by: tuple[str, ...] = (sys.executable, "-c")
    is_whole: bool = True
    """False where the sentence goes on with words that differ from one system to the next."""

    def __str__(self) -> str:
        return self.name


READ_THE_LOG = "see whether its last words tell why"
SHELL = ("bash", "-c")
RAISED = [
    End(
        "TensorFlow's words about an op",
        "raise ValueError('Matrix size-incompatible: [2,3] [4,5] [Op:MatMul] name: ')",
        ": ValueError: Matrix size-incompatible: [2,3] [4,5]",
    ),
    End("a plain exception", "print('epoch 1')\nraise ValueError('shard 3 is bad')", ": ValueError: shard 3 is bad"),
    End("no message", "x = 3\nassert x == 4", ": AssertionError: (<string>, line 2)"),
    End(
        "a cause",
        "try:\n    open('/no/shard-17')\nexcept OSError as error:\n    raise RuntimeError('reading failed') from error",
        ": RuntimeError: reading failed, caused by FileNotFoundError: [Errno 2] No such file or directory: "
        "'/no/shard-17'",
        "see that the file is there",
    ),
    End(
        "while handling another",
        "try:\n    {}['age']\nexcept KeyError:\n    raise RuntimeError('cannot read x.tfrecord')",
        ": RuntimeError: cannot read x.tfrecord, while handling KeyError: 'age'",
    ),
    End(
        "a chain of three",
        "try:\n    try:\n        1 / 0\n    except ArithmeticError as error:\n        raise KeyError(7) from error\n"
        "except KeyError as error:\n    raise RuntimeError('step 7 failed') from error",
        ": RuntimeError: step 7 failed, caused by ZeroDivisionError: division by zero",
    ),
    End(
        "a long outer message",
        "try:\n    1 / 0\nexcept ArithmeticError as error:\n    raise RuntimeError('x' * 500) from error",
        f": RuntimeError: {'x' * 76}..., caused by ZeroDivisionError: division by zero",
    ),
    End(
        "a group",
        "raise ExceptionGroup('two shards', [OSError('a'), ValueError('b')])",
        ": ExceptionGroup: two shards (2 sub-exceptions): OSError: a; ValueError: b",
    ),
    End(
        "tasks of asyncio",
        "import asyncio\nasync def fail():\n    raise ValueError('shard 3')\nasync def main():\n"
        "    async with asyncio.TaskGroup() as group:\n        group.create_task(fail())\nasyncio.run(main())",
        ": ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception): ValueError: shard 3",
    ),
    End(
        "a worker process",
        "import multiprocessing\ndef fail(x):\n    raise ValueError(f'row {x}')\n"
        "multiprocessing.get_context('fork').Pool(1).map(fail, [7])",
        ": ValueError: row 7",
    ),
    End("a zip file", "import zipfile; zipfile.ZipFile('/etc/passwd')", ": BadZipFile: File is not a zip file"),
    End(
        "struct",
        "import struct; struct.unpack('<q', b'abc')",
        ": struct.error: unpack requires a buffer of 8 bytes",
    ),
    End("an own class", "class BadShard(Exception): pass\nraise BadShard(17)", ": BadShard: 17"),
    End(
        "an own class within",
        "class Shard:\n    class Bad(LookupError): pass\nraise Shard.Bad('17')",
        ": Bad: 17",
    ),
    End(
        "several lines",
        "raise ValueError('labels differ:\\n  [0, 9]\\n  [0, 1]')",
        ": ValueError: labels differ: [0, 9] [0, 1]",
    ),
    End("a syntax error", "print('a'\nprint('b')", ": SyntaxError: '(' was never closed"),
    End(
        "output behind it",
        "import atexit, sys\natexit.register(lambda: print('bye', file=sys.stderr))\nraise KeyError('label')",
        ": KeyError: 'label'",
        is_whole=False,
    ),
    End(
        "a thread beside it",
        "import threading, sys\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()\n"
        "sys.exit('no data left')",
        ", its last words: no data left",
        READ_THE_LOG,
    ),
    End(
        "after one that was handled",
        "import logging, sys\ntry:\n    1 / 0\nexcept ArithmeticError:\n    logging.exception('shard 3 is left out')\n"
        "for step in range(100): print('step', step, file=sys.stderr)\nsys.exit('step 100: no data left')",
        ", its last words: step 100: no data left",
        READ_THE_LOG,
    ),
]
ERRORS = [
    End(
        "EMFILE",
        "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))\n[open('/dev/null') for _ in range(20)]",
        ": OSError: [Errno 24] Too many open files: '/dev/null'",
        "let it have more open files",
    ),
    End(
        "ENOSPC",
        "import os\nos.write(os.open('/dev/full', os.O_WRONLY), b'x')",
        ": OSError: [Errno 28] No space left on device",
        "make room on its disk",
    ),
    End(
        "ENOMEM",
        "import mmap, resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\nmmap.mmap(-1, 1 << 40)",
        ", out of memory: OSError: [Errno 12] Cannot allocate memory",
        "take a smaller batch",
    ),
    End(
        "EACCES",
        "import subprocess\nsubprocess.run(['/etc/passwd'])",
        ": PermissionError: [Errno 13] Permission denied: '/etc/passwd'",
        "let the user of its process",
    ),
    End(
        "ENOENT",
        "open('/no/data.csv')",
        ": FileNotFoundError: [Errno 2] No such file or directory: '/no/data.csv'",
        "see that the file is there",
    ),
    End(
        "ENOTDIR",
        "open('/dev/null/x')",
        ": NotADirectoryError: [Errno 20] Not a directory: '/dev/null/x'",
        "see that the file is there",
    ),
    End("EIO", "open('/proc/self/mem', 'rb').read(1)", ": OSError: [Errno 5] Input/output error", "look at the disk"),
    End(
        "a timeout",
        "import socket\ns = socket.create_server(('127.0.0.1', 0)); s.settimeout(0.01)\ns.accept()",
        ": TimeoutError: timed out",
        "see whether the server answers",
    ),
    End(
        "ECONNREFUSED",
        "import socket\ns = socket.socket(); s.bind(('127.0.0.1', 0))\nsocket.create_connection(s.getsockname())",
        ": ConnectionRefusedError: [Errno 111] Connection refused",
        "start the server",
    ),
    End(
        "EPIPE",
        "import os\nr, w = os.pipe(); os.close(r)\nos.write(w, b'x')",
        ": BrokenPipeError: [Errno 32] Broken pipe",
        "see why the other side",
    ),
    End(
        "ECONNRESET",
        "import socket, struct\ns = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(s.getsockname())\n"
        "o, _ = s.accept(); o.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0)); o.close()\n"
        "c.recv(1)",
        ": ConnectionResetError: [Errno 104] Connection reset by peer",
        "see why the other side",
    ),
    End(
        "EADDRINUSE",
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nsocket.socket().bind(s.getsockname())",
        ", its address is in use: OSError: [Errno 98] Address already in use",
        "end the program that has its port",
    ),
    End(
        "EADDRNOTAVAIL",
        "import socket\nsocket.socket().bind(('192.0.2.1', 0))",
        ": OSError: [Errno 99] Cannot assign requested address",
        "correct its address",
    ),
    End(
        "no such host",
        "import socket\nsocket.getaddrinfo('ps-7.example', 80, flags=socket.AI_NUMERICHOST)",
        ": socket.gaierror: [Errno -2] Name or service not known",
        "see that its host can resolve",
    ),
    *(
        # No machine gives these at will.
        End(
            name,
            f"import errno, os\nraise OSError(errno.{name}, os.strerror(errno.{name}), 'shard-17')",
            f"{words}: 'shard-17'",
            do,
            is_whole=False,
        )
        for name, words, do in (
            ("EDQUOT", "Disk quota exceeded", "remove files of its user"),
            ("ENFILE", "Too many open files in system", "raise fs.file-max"),
            ("EROFS", "Read-only file system", "let it write elsewhere"),
            ("ESTALE", "Stale file handle", "mount the file server's folder anew"),
            ("ETIMEDOUT", "Connection timed out", "see whether the server answers"),
            ("EHOSTUNREACH", "No route to host", "look at the network of its host"),
            ("EAGAIN", "Resource temporarily unavailable", "let it have more processes"),
        )
    ),
]
LAST = [
    End(
        "a text",
        "import sys; print('step 1'); sys.exit('no data in /data')",
        ", its last words: no data in /data",
        READ_THE_LOG,
    ),
    End(
        "argparse",
        "import argparse; argparse.ArgumentParser(prog='train.py').parse_args(['--foo'])",
        ", its last words: train.py: error: unrecognized arguments: --foo",
        READ_THE_LOG,
    ),
    End(
        "JSON",
        """import json, sys; print(json.dumps({"status": "failed", "why": "no data"}, indent=1)); sys.exit(4)""",
        ', its last words: "why": "no data"',
        READ_THE_LOG,
    ),
    End(
        "an exit at once",
        "import os; print('giving up', flush=True); os._exit(3)",
        ", its last words: giving up",
        READ_THE_LOG,
    ),
    End("nothing", "import os; os._exit(3)", "worker:0 exited 3 at 00:01:40", "read the end of its log"),
    End(
        "a warning last",
        "import sys, warnings; print('no data', file=sys.stderr); warnings.warn('slow'); sys.exit(3)",
        ", its last words: no data",
        READ_THE_LOG,
    ),
    End(
        "a progress bar",
        r"import sys; print('1/9\r2/9\r\x1b[1m3/9\x1b[0m loss: 0.5'); sys.exit(3)",
        ", its last words: 3/9 loss: 0.5",
        READ_THE_LOG,
    ),
    End(
        "a shell's command",
        "set -e; echo begin; cp /no/data.csv /tmp; echo end",
        ", its last words: cp: cannot stat '/no/data.csv': No such file or directory",
        "see that the file is there",
        SHELL,
    ),
    End(
        "a shell without a program",
        "set -e; no-such-program --x",
        ", its last words: bash: line 1: no-such-program: command not found",
        READ_THE_LOG,
        SHELL,
    ),
    End(
        "a shell around Python", f"set -e; {sys.executable} -c 'raise KeyError(7)'; echo end", ": KeyError: 7", by=SHELL
    ),
]
GOES_ON = (
    "import logging, os, sys\ntry:\n    open('/no/shard')\n"
    "except OSError:\n    logging.exception('shard 3 is left out')\n"
)
HANDLED = [
    End(
        "an exit after one that was handled",
        "import sys, traceback\ntry:\n    1 / 0\nexcept ArithmeticError:\n    traceback.print_exc()\n"
        "print('no data left', file=sys.stderr); sys.exit(2)",
        ", its last words: no data left",
        READ_THE_LOG,
    ),
    End(
        "one that was logged, and an exit",
        GOES_ON + "print('no data left', file=sys.stderr); sys.exit(1)",
        ", its last words: no data left",
        READ_THE_LOG,
    ),
    End(
        "a kill from outside",
        GOES_ON + "os.write(2, b'step 4\\n'); os.kill(os.getpid(), 9)",
        "worker:0 was killed by SIGKILL at 00:01:40",
        "see in its host's dmesg",
    ),
    End(
        "a kill just after one that was handled",
        GOES_ON + "os.kill(os.getpid(), 9)",
        ", its last words: FileNotFoundError: [Errno 2] No such file or directory: '/no/shard'",
        "see in its host's dmesg",
    ),
    End(
        "a segmentation fault after one that was handled",
        GOES_ON + "os.write(2, b'step 4\\n'); os.kill(os.getpid(), 11)",
        "worker:0 was killed by SIGSEGV at 00:01:40",
        "read the end",
    ),
    End(
        "one that ends with a status of its own",
        "import sys, traceback\ntry:\n    {}['age']\nexcept KeyError:\n    traceback.print_exc(); sys.exit(7)",
        ": KeyError: 'age'",
    ),
    End(
        "a coloured one",
        r"import sys; print('\x1b[35mTraceback (most recent call last):\x1b[0m\n'"
        r"'  File \x1b[35m\"a.py\"\x1b[0m, line 1\n'"
        r"'\x1b[1;35mValueError\x1b[0m: \x1b[35mshard 3\x1b[0m'); sys.exit(1)",
        ": ValueError: shard 3",
    ),
]
BROKEN = [
    End(
        "abort",
        "import os; os.write(2, b'free(): invalid pointer\\n'); os.abort()",
        ": free(): invalid pointer",
        "read the end",
    ),
    End(
        "an exception of C++",
        "import os; os.write(2, b\"terminate called after throwing an instance of 'std::runtime_error'\\n"
        '  what():  shard 17 is bad\\n"); os.abort()',
        ": terminate called after throwing an instance of 'std::runtime_error': shard 17 is bad",
        "read the end",
    ),
    End(
        "a check of TensorFlow",
        "import os\nos.write(2, b'F0000 00:00:1795754467.12   345 tensor.cc:80] Check failed: dtype() == 1\\n')\n"
        "os.abort()",
        ": Check failed: dtype() == 1",
        "read the end",
    ),
    End(
        "a dump of faulthandler",
        "import ctypes, faulthandler; faulthandler.enable(); ctypes.string_at(0)",
        ": Fatal Python error: Segmentation fault",
        "read the end",
    ),
    End(
        "a time limit of faulthandler",
        "import faulthandler, time; faulthandler.dump_traceback_later(0.05, exit=True); time.sleep(9)",
        ": Timeout (0:00:00.050000)!",
        "read the end",
    ),
]


def _status(end: End, died: Died) -> TaskStatus:
    """Run a program, and return the status that its agent reports."""
    command = [*end.by, end.program]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    code, number = (done.returncode, None) if done.returncode >= 0 else (None, -done.returncode)
    return died(100.0, exit=Exit(code, number, 100.0, log=last_words(done.stdout.splitlines(), code, number)))


@pytest.mark.parametrize("end", [*RAISED, *ERRORS, *LAST, *HANDLED, *BROKEN], ids=str)
def test_an_end_is_told_with_its_reason_and_what_to_do(end: End, view: View, died: Died) -> None:
    (crash,) = CrashWatch().diagnose({"worker:0": view("worker:0", status=_status(end, died))}, 100.5)
    sentence = crash.sentence
    assert sentence.endswith(end.says) if end.is_whole else end.says in sentence, sentence
    assert (first_step(crash) or "").startswith(end.do), (first_step(crash), crash.evidence["reason"])
