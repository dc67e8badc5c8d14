"""Where the commands attn-opt, attn-compile, attn-explain, attn-tune and attn-verify begin.

Importing attnpass takes a tenth of a second, in which Ctrl-C would end in a traceback. So this
module stands beside the package, and imports it once an interrupt just ends the process.
"""

import importlib
import os
import sys

INTERRUPTED = 130


def attn_compile() -> int:
    return _run("attn_compile")


def attn_explain() -> int:
    return _run("attn_explain")


def attn_opt() -> int:
    return _run("attn_opt")


def attn_tune() -> int:
    return _run("attn_tune")


def attn_verify() -> int:
    return _run("attn_verify")


def _run(module: str) -> int:
    """The exit code of the command with this module in attnpass.cli."""
    name = module.replace("_", "-")
    _end_at_interrupts(name)
    try:
        main = importlib.import_module(f"attnpass.cli.{module}").main
    except ImportError as error:
        # Without IREE, or with another one than the package is for.
        untested = getattr(sys.modules.get("attnpass"), "untested", "")
        text = f"attnpass {untested} ({error})" if untested else str(error)
        sys.stderr.write(f"{name}: error: {text}\n")
        return 1
    return main()


def _end_at_interrupts(name: str) -> None:
    """From here on an interrupt ends the process, unless whoever started it had them ignored."""

    def end() -> None:
        os.write(2, f"{name}: interrupted\n".encode())
        os._exit(INTERRUPTED)

    try:
        import signal

        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            # No exception: Python drops one that is raised where it cannot be handed on.
            signal.signal(signal.SIGINT, lambda number, frame: end())
    except KeyboardInterrupt:
        end()
