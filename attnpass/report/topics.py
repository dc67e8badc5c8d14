"""Topics: what a pass is about, in the tags of remarks and the names of loggers.

`ATTNPASS_LOG=plan,configure` shows what `logging` is told of these topics on standard error, as it
happens; `all` shows everything. Programs attach handlers of their own to `attnpass.plan`.
"""

from __future__ import annotations

import difflib
import logging
import os

from ..errors import AttnError

SWITCH = "ATTNPASS_LOG"
# Times of passes, and which of them changed the module.
RUN = "run"
# Of what no pass of ours does.
MODULE_TOPIC = "module"
_PREFIX = "attn-"
# The passes that decide on the order of dims.
_PLAN = (
    "attn-bubble-transpose-v",
    "attn-fold-transpose",
    "attn-fuse-transpose",
    "attn-propagate-layout",
    "attn-transpose-caches",
)
_shown: set[str] = set()


def topic_of(pass_name: str) -> str:
    """The topic of what a pass says; its own name for most."""
    if pass_name in _PLAN:
        return "plan"
    return pass_name.removeprefix(_PREFIX) or MODULE_TOPIC


def tell(topic: str, text: str, *arguments: object) -> None:
    """Logs a line, as `logging` writes it, for those who listen to a topic."""
    logging.getLogger(f"attnpass.{topic}").info(text, *arguments)


def listen(pass_names: list[str]) -> None:
    """Shows the topics that the environment asks for on standard error, from now on; AttnError
    for a word that is the topic of none of these passes."""
    words = [word.strip() for word in os.environ.get(SWITCH, "").split(",") if word.strip()]
    known = sorted({topic_of(name) for name in pass_names} | {RUN, MODULE_TOPIC, "all"})
    for word in words:
        if word not in known:
            close = difflib.get_close_matches(word, known, n=1)
            hint = f"; did you mean '{close[0]}'?" if close else f" (use {', '.join(known)})"
            raise AttnError(f"{SWITCH}: '{word}' is no topic{hint}")
    for name in {"attnpass" if word == "all" else f"attnpass.{word}" for word in words} - _shown:
        _shown.add(name)
        _show(logging.getLogger(name))


def _show(logger: logging.Logger) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
