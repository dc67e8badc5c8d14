"""One attention of a bench, what it should give, and the lists of them that benches have as data.

A list is a file of names, one a line, in the order in which cases are measured. Lines that end in
a colon say of those below whether they are `checked:` alone or `timed:`, too; `#` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

_KINDS = re.compile("(?:bf16|f16|f32|f8E4M3FN|f8E5M2)")
_FLAGS = (
    "causal",
    "dynamic",
    "own",
    "configured",
    "projected",
    "growing",
    "poisoned",
    "cast",
    "latent",
    "sink",
)
# Words of names that have a number behind them: the fields that they are of.
_NUMBERED = {"offset": "offset", "window": "behind", "cap": "cap", "steps": "steps"}


@dataclass(frozen=True)
class Case:
    """`heads` = batch x heads of K and V, each with `group` query heads.

    `dtype` is the type of Q; `cache` that of K and V, if another, and `value` that of V, if not
    K's. `behind` keys before its own are what a row sees, if not 0. `mask` is the type of a mask
    that is passed in, i1 or a float, and `mask_dims` are its dims: some of b, g, m, n. `seen` is
    what a mask of truth values over rows and keys that is passed in shows: `lower` triangle, or all
    but the last quarter as `padding`. `offset` is the key that a causal row 0 sees last.
    `timed` cases are run repeatedly; `own` leaves attention to IREE, by itself or `configured` by
    attnpass. `layout` is V's in the module, `steps` the number of attentions, each reading the
    output of the one before. With `projected` V is a product of two arguments, and with `cast` the
    model itself widens Q, K and V to the result's type. With `elsewhere` the module asks for the
    device at run time: `hopper` and finds the kernel's, or `older` and is made not to. A score s
    becomes cap * tanh(s / cap) with a `cap`. `growing` keys are the larger the later, so that rows'
    maxima grow. V's head dim is `value_head`, if not 0 but that of Q and K. `forced` is the kernel
    that is measured, if not the one that would be taken. With `poisoned` every other head is NaN,
    and the rest must not be. `latent` V is K's first columns, and no operand of the module. With
    `sink` each query head has a score that belongs to no key.
    """

    dtype: str
    heads: int
    rows: int
    keys: int
    head: int
    group: int = 1
    causal: bool = False
    layout: str = "row-major"
    dynamic: bool = False
    timed: bool = False
    own: bool = False
    steps: int = 1
    behind: int = 0
    mask: str = ""
    mask_dims: str = "mn"
    offset: int = 0
    cache: str = ""
    configured: bool = False
    projected: bool = False
    elsewhere: str = ""
    cap: float = 0
    forced: str = ""
    value: str = ""
    poisoned: bool = False
    growing: bool = False
    seen: str = ""
    cast: bool = False
    value_head: int = 0
    latent: bool = False
    sink: bool = False

    @property
    def name(self) -> str:
        kinds = self.dtype + self.cache + self.value
        words = [kinds, f"{self.heads}x{self.group}", f"{self.rows}x{self.keys}"]
        words += [f"d{self.head}" + (f"x{self.value_head}" if self.value_head else "")]
        for word in ("causal", "dynamic", "own", "configured", "projected", "growing"):
            words += [word] if getattr(self, word) else []
        words += [f"offset{self.offset}"] if self.offset else []
        words += [f"elsewhere_{self.elsewhere}"] if self.elsewhere else []
        words += [f"window{self.behind}"] if self.behind else []
        words += [f"cap{self.cap:g}"] if self.cap else []
        words += [f"mask_{self.mask}_{self.mask_dims}"] if self.mask else []
        words += [f"seen_{self.seen}"] if self.seen else []
        words += ["forced"] if self.forced else []
        words += ["poisoned"] if self.poisoned else []
        words += ["cast"] if self.cast else []
        words += ["latent"] if self.latent else []
        words += ["sink"] if self.sink else []
        words += ["vt"] if self.layout == "transposed" else []
        words += [f"steps{self.steps}"] if self.steps > 1 else []
        return "_".join(words)

    @property
    def columns(self) -> int:
        """The head dim of V and of the result."""
        return self.value_head or self.head

    @property
    def output(self) -> str:
        """The element type of the result: that of 16 bits or more, f16 if there is none."""
        kinds = (self.dtype, self.kept, self.values)
        return next((kind for kind in kinds if not kind.startswith("f8")), "f16")

    @property
    def kept(self) -> str:
        """The element type of K."""
        return self.cache or self.dtype

    @property
    def values(self) -> str:
        """The element type of V."""
        return self.value or self.kept

    @property
    def is_narrow(self) -> bool:
        """Whether Q, K or V has 8 bits."""
        return any(kind.startswith("f8") for kind in (self.dtype, self.kept, self.values))

    @property
    def is_decode(self) -> bool:
        return self.rows * self.group <= 64 and not self.latent

    @property
    def bytes(self) -> int:
        """Of K and V."""
        width = 1 if self.kept.startswith("f8") else 4 if self.kept == "f32" else 2
        columns = self.head + (0 if self.latent else self.columns)
        return self.heads * self.keys * columns * width

    @property
    def flops(self) -> float:
        """Of the two products; half of them where half of the keys are hidden, and those of
        the window if there is one."""
        keys = min(self.keys, self.behind + 1) if self.behind else self.keys
        full = 2 * self.heads * self.group * self.rows * keys * (self.head + self.columns)
        return full / 2 if self.causal and not self.behind else full


def listed_cases(path: Path) -> list[Case]:
    """The cases of a list."""
    found, timed = [], False
    for line in path.read_text().splitlines():
        words = line.partition("#")[0].split()
        if words in (["timed:"], ["checked:"]):
            timed = words == ["timed:"]
        elif words:
            forced = words[1] if len(words) > 1 else ""
            case = replace(case_of(words[0]), timed=timed, forced=forced)
            assert case.name == words[0], f"{path}: {words[0]} is called {case.name}"
            found.append(case)
    return found


def case_of(name: str) -> Case:
    """The case of this name; which kernel is `forced` stands behind it in lists."""
    kinds, heads, sizes, head, *words = name.split("_")
    (heads, group), (rows, keys) = (map(int, text.split("x")) for text in (heads, sizes))
    dtype, *others = _KINDS.findall(kinds)
    given: dict[str, Any] = {}
    for other in others:
        # Q and K of 8 bits may stand before V of 16, and caches of 8 bits behind Q of 16.
        given["cache" if other.startswith("f8") else "value"] = other
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            given[word] = True
        elif word == "vt":
            given["layout"] = "transposed"
        elif word == "mask":
            given["mask"], given["mask_dims"] = next(rest), next(rest)
        elif word in ("elsewhere", "seen"):
            given[word] = next(rest)
        elif numbered := re.fullmatch(r"([a-z]+)(\d+)", word):
            given[_NUMBERED[numbered[1]]] = int(numbered[2])
    columns, _, own = head.removeprefix("d").partition("x")
    given |= {"value_head": int(own)} if own else {}
    return Case(dtype, heads, rows, keys, int(columns), group, **given)


def reference(
    case: Case,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    only: Sequence[int] | None = None,
    exact: str = "float64",
    sinks: Any = None,
) -> Any:
    """Attention in torch's type `exact`, a query head at a time: of q (heads, group, rows, head)
    over k and v (heads, keys, head), or of `only` some heads. A mask has dims (heads, group, rows,
    keys), which may be 1, and is true where a key is seen, or added to scores; sinks are (heads,
    group)."""
    import torch

    kind, heads = getattr(torch, exact), []
    for head in range(len(q)) if only is None else only:
        rows = []
        for number, member in enumerate(q[head]):
            x = member.to(kind)
            own = None if mask is None else _own_mask(mask, head, number)
            sink = None if sinks is None else sinks[head, number]
            for _ in range(case.steps):
                x = _exact(x, k[head].to(kind), v[head].to(kind), case, own, sink)
                x = x.to(member.dtype).to(kind) if case.steps > 1 else x
            rows.append(x)
        heads.append(torch.stack(rows))
    return torch.stack(heads)


def _own_mask(mask: Any, head: int, member: int) -> Any:
    """The mask (m, n) of one query head; m may be 1."""
    return mask[min(head, mask.shape[0] - 1), min(member, mask.shape[1] - 1)]


def _exact(q: Any, k: Any, v: Any, case: Case, mask: Any, sink: Any) -> Any:
    """Softmax attention of one head, in blocks of rows; row i sees keys 0 to i if causal."""
    import torch

    blocks = []
    for start in range(0, len(q), 2048):
        scores = q[start : start + 2048] @ k.T * case.head**-0.5
        scores = case.cap * torch.tanh(scores / case.cap) if case.cap else scores
        part = mask if mask is None or len(mask) == 1 else mask[start : start + 2048]
        if part is not None and part.dtype == torch.bool:
            scores = scores.masked_fill(~part, float("-inf"))
        elif part is not None:
            scores = scores + part.to(scores.dtype)
        elif case.causal:
            row = torch.arange(start, start + len(scores), device=q.device) + case.offset
            key = torch.arange(len(k), device=q.device)
            scores = scores.masked_fill(key[None] > row[:, None], float("-inf"))
        if sink is not None:
            column = sink.to(scores.dtype).expand(len(scores), 1)
            blocks.append(torch.softmax(torch.cat([scores, column], -1), -1)[:, :-1] @ v)
            continue
        blocks.append(torch.softmax(scores, -1) @ v)
    return torch.cat(blocks)
