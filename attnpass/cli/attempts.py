"""One compile after the other, each in a process of its own, until one succeeds.

A crash of the compiler is a failure like others: what that process told before says what had
changed the module, and the next compile leaves some of it out.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from ..driver.fallbacks import Failure, FallbackSearch
from ..driver.files import full_temporary_folder
from ..errors import AttnError
from .guard import HINT, Channel, HeldText, exit_code, in_child


@dataclass(frozen=True)
class CompileState:
    """A compile of module `number` goes on; `changed` is what has changed the module by then,
    and `running` the pass that runs now, if one does."""

    number: int
    changed: Mapping[str, str]
    running: str = ""


@dataclass(frozen=True)
class Failed:
    """A compile of module `number` failed."""

    number: int
    failure: Failure


@dataclass(frozen=True)
class Done:
    """A compile of module `number` succeeded."""

    number: int


@dataclass(frozen=True)
class Ended:
    """All has been said: the process ends by itself, and not by a fault of the compiler."""


Event = CompileState | Failed | Done | Ended
Tell = Callable[[Event], object]
Body = Callable[[Sequence[FallbackSearch], Tell], int]


@dataclass
class _Heard:
    """What a process has told of the modules."""

    progress: dict[int, CompileState] = field(default_factory=dict)
    failures: dict[int, Failure] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    has_ended: bool = False

    def take(self, event: Event) -> None:
        if isinstance(event, CompileState):
            self.progress[event.number] = event
        elif isinstance(event, Failed):
            self.failures[event.number] = event.failure
        elif isinstance(event, Done):
            self.done.add(event.number)
        else:
            self.has_ended = True

    def crashed(self, why: str, count: int) -> None:
        """Takes the crash of the process for a failure of the module that it was at."""
        ended = self.done | set(self.failures)
        number = next((n for n in range(count) if n not in ended), count - 1)
        # A compile without our passes tells nothing before it crashes.
        last = self.progress.get(number, CompileState(number, {}))
        why = f"pass '{last.running}' failed: {why}" if last.running else why
        self.failures[number] = Failure(why, "", last.changed, last.running)

    def go_on(self, searches: Sequence[FallbackSearch]) -> bool:
        """Takes each search a step on; whether another round of compiles is wanted."""
        ended = [not searches[n].failed(failure) for n, failure in self.failures.items()]
        probed = [not searches[n].succeeded() for n in sorted(self.done)]
        return not any(ended) and (bool(ended) or any(probed))


def compile_in_children(name: str, searches: Sequence[FallbackSearch], body: Body) -> int:
    """The exit code of `body`, which compiles modules as `searches` say, tells what becomes of
    each, and writes the output if all are as wanted; it runs again, in another child of this
    process, as long as a search knows what else to try. What it says on standard error counts
    only in the last, but where tracebacks are wanted. `name` is what messages call the input.
    """
    while True:
        heard, said = _Heard(), HeldText()
        crash, code = _round(searches, body, heard, said)
        if crash or (code and not heard.has_ended):
            what = crash or f"ended the process with {code}"
            heard.crashed(f"IREE's compiler {what}", len(searches))
        full = full_temporary_folder(said.text) if crash or code else ""
        if not full and code in (0, 1) and heard.go_on(searches):
            if os.environ.get("ATTNPASS_TRACEBACK"):
                said.print()
            continue
        said.print()
        if full:
            raise AttnError("no space is left in it; IREE needs a folder for temporary files", full)
        if crash:
            plain = any(search.is_plain for search in searches)
            without = ", without the passes of attnpass, too" if plain else ""
            raise AttnError(f"IREE's compiler {crash}{without}{HINT}", name)
        return code


def _round(
    searches: Sequence[FallbackSearch], body: Body, heard: _Heard, said: HeldText
) -> tuple[str, int]:
    """Runs `body` once: how it crashed, or '', and its exit code."""
    if not hasattr(os, "fork"):
        return "", body(searches, heard.take)
    lines = bytearray()
    events, errors = Channel(lines.extend), Channel(said.add)

    def tell(event: Event) -> None:
        os.write(events.writer, json.dumps([type(event).__name__, asdict(event)]).encode() + b"\n")

    def child() -> int:
        if sys.stderr:
            os.dup2(errors.writer, sys.stderr.fileno())
        os.close(errors.writer)
        code = body(searches, tell)
        tell(Ended())
        return code

    ended = in_child(child, (events, errors))
    for line in bytes(lines).splitlines():
        heard.take(_event(json.loads(line)))
    return ended.crash, 0 if ended.crash else exit_code("attn-compile", ended)


def _event(data: list) -> Event:
    kind, fields = data
    if kind == "Failed":
        return Failed(fields["number"], Failure(**fields["failure"]))
    return {each.__name__: each for each in (CompileState, Done, Ended)}[kind](**fields)
