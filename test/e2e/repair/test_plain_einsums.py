"""Einsums of PyTorch's dialect, of known sizes and of unknown ones, against float64."""

from __future__ import annotations

import numpy as np
from helpers import compile_text, rel_error
from iree import runtime

from bench.device import load

SIZES = dict(zip("abcdehijklnp", (2, 3, 2, 4, 3, 2, 5, 6, 4, 5, 3, 7), strict=True))
# An equation, and the letters of unknown sizes.
FORMS = (
    ("bclhn,bhcl,bclhp->bchpn", "bc"),
    ("bij->b", ""),
    ("bij->b", "ij"),
    ("bii->bi", ""),
    ("iji->j", "j"),
    ("bij,cik->bk", "bi"),
    ("bii,bij->bj", "b"),
    ("bihd,bjhd->bhij", "bijh"),
    ("bhid,ijd->bhij", "bij"),
    ("abc,bc->a", "abc"),
    ("bhne,hed->bnd", "bn"),
    ("ij,ij,jk->k", "ijk"),
    ("i,j->ij", "ij"),
)


def _type(term: str, unknown: str) -> str:
    sizes = ["?" if letter in unknown else str(SIZES[letter]) for letter in term]
    return f"!torch.vtensor<[{','.join(sizes)}],f32>"


def _function(name: str, equation: str, unknown: str) -> str:
    *terms, result = equation.replace("->", ",").split(",")
    kinds = [_type(term, unknown) for term in terms]
    names = [f"%x{at}" for at in range(len(terms))]
    made = _type(result, unknown)
    given = ", ".join(f"{one}: {kind}" for one, kind in zip(names, kinds, strict=True))
    return f"""
func.func @{name}({given}) -> {made} {{
  %e = torch.constant.str "{equation}"
  %l = torch.prim.ListConstruct {", ".join(names)} : ({", ".join(kinds)}) -> !torch.list<vtensor>
  %n = torch.constant.none
  %y = torch.aten.einsum %e, %l, %n : !torch.str, !torch.list<vtensor>, !torch.none -> {made}
  return %y : {made}
}}"""


def test_einsums() -> None:
    """Of three tensors, with sums and diagonals of one, with several unknown dims of a kind."""
    text = "".join(_function(f"f{at}", *form) for at, form in enumerate(FORMS))
    module = load(runtime.Config("local-sync"), compile_text(text, mode="cost"))
    random = np.random.default_rng(0)
    for at, (equation, unknown) in enumerate(FORMS):
        for more in (0, 1):
            sizes = {one: size + more * (one in unknown) for one, size in SIZES.items()}
            terms = equation.partition("->")[0].split(",")
            inputs = [
                random.standard_normal([sizes[letter] for letter in term]).astype(np.float32)
                for term in terms
            ]
            found = np.asarray(module[f"f{at}"](*inputs).to_host())
            wanted = np.einsum(equation, *(x.astype(np.float64) for x in inputs))
            assert rel_error(found, wanted) < 2e-6, (equation, unknown, more)
