"""`tfscale-console`: carries out the command that the words name, and tells an error as one line."""

from __future__ import annotations

import tfscale.core.early_interrupt

# isort: split
import os
import sys

from tfscale.core.errors import TfscaleError
from tfscale.core.standard_streams import fill_standard_streams


def main() -> None:
    """Run, and exit with a status of `ExitStatus`."""
    fill_standard_streams()
    if sys.argv[1:] == ["--version"]:
        from tfscale.core.version import version_line

        # Without the imports of the commands, which take a second.
        tfscale.core.early_interrupt.restore()
        print(version_line())
        return
    from tfscale.console.command_table import COMMANDS, WATCH
    from tfscale.console.settings.command_line import parse
    from tfscale.console.settings.console_log import tell
    from tfscale.core.settings.exit_status import ExitStatus

    tfscale.core.early_interrupt.restore()
    try:
        invocation = parse(WATCH, COMMANDS, sys.argv[1:], os.environ)
        status = invocation.command.run(invocation)
    except TfscaleError as error:
        tell(str(error))
        status = error.exit_status
    except BrokenPipeError:
        # Its reader has gone; Python would complain once more when it flushes stdout at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = ExitStatus.WELL
    except KeyboardInterrupt:
        status = ExitStatus.INTERRUPTED
    sys.exit(status)


if __name__ == "__main__":
    main()
