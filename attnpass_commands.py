"""Where the commands attn-opt, attn-compile, attn-explain, attn-tune and attn-verify begin.

Importing attnpass takes a tenth of a second, in which Ctrl-C would end in a traceback. So this
module stands beside the package, and imports it once an interrupt just ends the process.
"""

import os

INTERRUPTED = 130


def attn_compile() -> int:
    _end_quietly()
    from attnpass.cli.attn_compile import main

    return main()


def attn_explain() -> int:
    _end_quietly()
    from attnpass.cli.attn_explain import main

    return main()


def attn_opt() -> int:
    _end_quietly()
    from attnpass.cli.attn_opt import main

    return main()


def attn_tune() -> int:
    _end_quietly()
    from attnpass.cli.attn_tune import main

    return main()


def attn_verify() -> int:
    _end_quietly()
    from attnpass.cli.attn_verify import main

    return main()


def _end_quietly() -> None:
    """From here on an interrupt ends the process, unless whoever started it had them ignored."""
    try:
        import signal

        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            # No exception: Python drops one that is raised where it cannot be handed on.
            signal.signal(signal.SIGINT, lambda number, frame: os._exit(INTERRUPTED))
    except KeyboardInterrupt:
        os._exit(INTERRUPTED)
