"""Pass pipelines as text: our passes and IREE's and MLIR's own, in any order.

`builtin.module(attn-propagate-layout{mode=always},canonicalize,func.func(cse))`, or the
same without the anchor. Our passes stand at module level; every other segment is handed on,
as text, to IREE's pass manager.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from .errors import AttnError, InternalError, PassError, PipelineError
from .families import FAMILIES
from .passes import PREFIX, Pass, PassContext, make_pass, pass_names
from .report.topics import RUN, SWITCH, listen, tell

if TYPE_CHECKING:
    from iree.compiler import ir

ANCHOR = "builtin.module"


@dataclass(frozen=True)
class Foreign:
    """A run of passes of IREE or MLIR, as pipeline text below builtin.module."""

    text: str


Stage = Pass | Foreign


@dataclass(frozen=True)
class Element:
    """One element of a pipeline string: a pass, or an op name with nested elements."""

    name: str
    options: str | None
    children: tuple[Element, ...] | None
    position: int

    def text(self) -> str:
        options = "" if self.options is None else f"{{{self.options}}}"
        inner = "" if self.children is None else f"({','.join(c.text() for c in self.children)})"
        return self.name + options + inner


@dataclass
class Instrumentation:
    """What `run_pipeline` tells about its work: hooks before and after each stage, times, and
    the stages that changed the module (those that are not ours count as such)."""

    before: Callable[[str, ir.Operation], None] | None = None
    after: Callable[[str, ir.Operation], None] | None = None
    seconds: list[tuple[str, float]] = field(default_factory=list)
    changed: list[Stage] = field(default_factory=list)


def parse_pipeline(text: str) -> list[Stage]:
    """The stages that a pipeline string names; PipelineError tells what is wrong and where."""
    elements = _Parser(text).parse()
    if len(elements) == 1 and elements[0].name == ANCHOR and elements[0].children is not None:
        if elements[0].options is not None:
            raise PipelineError(f"'{ANCHOR}' takes no options, but has {{{elements[0].options}}}")
        elements = elements[0].children
    stages: list[Stage] = []
    for element in elements:
        if element.name == ANCHOR:
            raise PipelineError(f"'{ANCHOR}(...)' must enclose the whole pipeline")
        if element.name.startswith(PREFIX):
            if element.children is not None:
                raise PipelineError(f"'{element.name}' is a pass: nothing can be nested under it")
            named = make_pass(element.name, parse_options(element.name, element.options))
            stages += named.stages()
            continue
        _refuse_nested(element)
        stages.append(Foreign(element.text()))
    return stages


def parse_options(name: str, text: str | None) -> dict[str, str]:
    """`a=1 b={x,y} flag` as a dict; options may also stand apart by commas."""
    options: dict[str, str] = {}
    for word in _split_options(text or ""):
        key, separator, value = word.partition("=")
        if not key:
            raise PipelineError(f"pass '{name}': malformed option '{word}' (use key=value)")
        if key in options:
            raise PipelineError(f"pass '{name}': option '{key}' is given twice")
        options[key] = value if separator else "true"
    return options


def stage_name(stage: Stage) -> str:
    return stage.text if isinstance(stage, Foreign) else stage.name


def run_pipeline(
    module: ir.Operation,
    stages: Iterable[Stage],
    context: PassContext,
    *,
    verify: bool = True,
    instrumentation: Instrumentation | None = None,
) -> None:
    """Runs the stages on `module` (a builtin.module), in place.

    Raises AttnError where a pass of ours cannot work on its input; PassError, naming the
    pass, where one of IREE or MLIR fails and, with `verify`, where one left IR that does not
    verify: each that says it changed the module, and all that do not at the end. Attention ops
    that share a location are numbered first, in their locations; those that no pass takes are
    noted.
    """
    watch, unverified = instrumentation or Instrumentation(), ""
    stages = list(stages)
    listen_as_asked()
    if any(isinstance(stage, Pass) for stage in stages):
        _say_what_is_untested(stages)
        from .attention.facts import note_what_is_left, tell_apart

        tell_apart(module)
        note_what_is_left(module, context.report)
    for number, stage in enumerate(stages):
        name = stage_name(stage)
        context.report.pass_name = name
        context.later = tuple(s for s in stages[number + 1 :] if isinstance(s, Pass))
        if watch.before:
            watch.before(name, module)
        start = time.perf_counter()
        if isinstance(stage, Foreign):
            _run_foreign(module, stage.text, verify)
            watch.changed.append(stage)
        elif _run_ours(stage, module, context):
            watch.changed.append(stage)
            unverified = ""
            if verify:
                _verify(module, name)
        else:
            unverified = name
        seconds = time.perf_counter() - start
        watch.seconds.append((name, seconds))
        did = "changed" if watch.changed and watch.changed[-1] is stage else "left"
        tell(RUN, "%s %s the module, in %.3f s", name, did, seconds)
        if watch.after:
            watch.after(name, module)
    if verify and unverified:
        _verify(module, unverified)
    context.report.pass_name = ""


def listen_as_asked() -> None:
    """Shows what the environment's ATTNPASS_LOG names; AttnError for what it cannot name."""
    if os.environ.get(SWITCH):
        listen([name for name in pass_names() if name not in FAMILIES])


def _say_what_is_untested(stages: Sequence[Stage]) -> None:
    """Warns, once a process, where passes mend an IREE that is not the installed one."""
    import attnpass

    names = [stage.name for stage in stages if isinstance(stage, Pass) and stage.mends]
    if attnpass.untested and names:
        warnings.warn(f"{names[0]} {attnpass.untested}", RuntimeWarning, stacklevel=3)
        attnpass.untested = ""


def check_foreign(stages: Iterable[Stage]) -> None:
    """PipelineError for a stage that IREE's pass manager does not know or cannot parse."""
    from iree.compiler import ir

    texts = [stage.text for stage in stages if isinstance(stage, Foreign)]
    if texts:
        with ir.Context() as context:
            context.load_all_available_dialects()
            for text in texts:
                _pass_manager(text)
                _check_anchors(_Parser(text).parse(), context)


def _check_anchors(elements: Iterable[Element], context: ir.Context) -> None:
    """PipelineError for passes below an op that does not exist: MLIR runs them on nothing."""
    for element in elements:
        if element.children is not None:
            if element.name != "any" and not context.is_registered_operation(element.name):
                raise PipelineError(f"no op is called '{element.name}', which has passes below it")
            _check_anchors(element.children, context)


def _pass_manager(text: str) -> Any:
    """A pass manager for pipeline text, in the current context."""
    from iree.compiler import passmanager

    try:
        return passmanager.PassManager.parse(f"{ANCHOR}({text})")
    except ValueError as error:
        raise PipelineError(f"pass '{text}': {_parser_message(error)}") from None


def _parser_message(error: ValueError) -> str:
    """What is wrong, out of a message with a place, the text again and a caret below it."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    line = next((line for line in lines if "error: " in line), lines[0] if lines else "malformed")
    return line.rpartition("error: ")[2].removeprefix("<Pass-Options-Parser>: ")


def _run_ours(stage: Pass, module: ir.Operation, context: PassContext) -> bool:
    """Whether the pass changed the module."""
    from iree.compiler import ir

    try:
        with module.context:
            return stage.run(module, context)
    except ir.MLIRError as error:
        raise mlir_error(error, f"pass '{stage.name}' failed", stage.name) from None
    except AttnError:
        raise
    except Exception as error:
        raise InternalError(error, stage.name) from error


def _run_foreign(module: ir.Operation, text: str, verify: bool) -> None:
    from iree.compiler import ir

    from .ir.threads import one_thread

    with module.context, one_thread(module.context):
        manager = _pass_manager(text)
        manager.enable_verifier(verify)
        try:
            manager.run(module)
        except ir.MLIRError as error:
            raise mlir_error(error, f"pass '{text}' failed", text) from None


def _verify(module: ir.Operation, name: str) -> None:
    from iree.compiler import ir

    from .ir.threads import verify

    try:
        verify(module)
    except ir.MLIRError as error:
        raise mlir_error(error, f"pass '{name}' left invalid IR", name) from None


def mlir_error(error: Exception, what: str, name: str) -> PassError:
    """An error of the bindings as one of ours: the first diagnostic and its location.

    A context that emits its diagnostics has told them already: then `what` stands alone.
    """
    from iree.compiler import ir

    from .ir import location_text

    for diagnostic in getattr(error, "error_diagnostics", ()):
        # An error's diagnostic has its location as the base class: this casts it down.
        location = diagnostic.location
        where = location_text(ir.Location.from_attr(location.attr, location.context))
        text = explained(diagnostic.message.splitlines()[0])
        return PassError(f"{what}: {text}", "" if where == "unknown" else where, name)
    return PassError(what, name=name)


def explained(text: str) -> str:
    """A message of the pass manager, with what to do where it does not say."""
    if text.startswith("unable to schedule pass"):
        return f"{text} (nest it: -p 'builtin.module(func.func(...))')"
    return text


def _refuse_nested(element: Element) -> None:
    for child in element.children or ():
        if child.name.startswith(PREFIX):
            raise PipelineError(
                f"'{child.name}' at column {child.position + 1} is nested under "
                f"'{element.name}': it works on whole modules, put it at builtin.module level"
            )
        _refuse_nested(child)


def _split_options(text: str) -> list[str]:
    """Words at spaces and, where the next word is an option too, commas; braces protect."""
    words: list[str] = []
    word, depth = "", 0
    for i, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if depth == 0 and (char.isspace() or (char == "," and _is_key(text[i + 1 :]))):
            words.append(word)
            word = ""
        else:
            word += char
    return [item for item in [*words, word] if item]


def _is_key(text: str) -> bool:
    """Whether what follows a comma starts a new option rather than a list's next word."""
    head = text.split(",")[0].split()[0] if text.split(",")[0].split() else ""
    return "=" in head


class _Parser:
    """Recursive descent over `name{options}(children),...`."""

    def __init__(self, text: str):
        self.text = text
        self.at = 0

    def parse(self) -> Sequence[Element]:
        elements = self._elements()
        if self.at != len(self.text):
            self._fail(f"unexpected '{self.text[self.at]}'")
        return elements

    def _elements(self) -> tuple[Element, ...]:
        found: list[Element] = []
        self._skip_spaces()
        if self.at == len(self.text) or self._peek(")"):
            return ()
        while True:
            found.append(self._element())
            if not self._take(","):
                return tuple(found)

    def _element(self) -> Element:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in ",(){}":
            self.at += 1
        name = self.text[start : self.at].strip()
        start += self.text[start:].find(name)
        if not name:
            self._fail("expected a pass name")
        options = self._options() if self._peek("{") else None
        children = None
        if self._take("("):
            children = self._elements()
            if not self._take(")"):
                self._fail("expected ')'")
        return Element(name, options, children, start)

    def _options(self) -> str:
        depth, start = 0, self.at + 1
        while self.at < len(self.text):
            depth += (self.text[self.at] == "{") - (self.text[self.at] == "}")
            self.at += 1
            if depth == 0:
                return self.text[start : self.at - 1]
        self._fail("missing '}'")

    def _peek(self, char: str) -> bool:
        return self.text[self.at : self.at + 1] == char

    def _skip_spaces(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def _take(self, char: str) -> bool:
        self._skip_spaces()
        found = self._peek(char)
        self.at += found
        return found

    def _fail(self, what: str) -> NoReturn:
        raise PipelineError(f"pass pipeline '{self.text}', column {self.at + 1}: {what}")
