"""Einsums as IREE 3.13's import takes them: products of two tensors, each dim of which is in the
other one or in the result, and a result that is named."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import torch


def einsum(equation: str, operands: Any, path: Any = None) -> Any:
    """The same by other ops; NotImplemented where the import takes it as it is.

    1. Of each operand diagonals are taken, and sums over dims that it has alone.
    2. One operand is permuted then.
    3. Two of the same dims are multiplied element by element, and summed up; so are two of which
       nothing is summed.
    4. Of three and more the first two are an einsum, and their result one with the others.
    5. Two with several dims of a kind that are known only at run time are a product of matrices.
    6. All else is an einsum again, with its result.
    """
    spelled = _spelled(equation.replace(" ", ""), operands)
    if "." in spelled:
        return NotImplemented
    terms, _, result = spelled.partition("->")
    before = terms.split(",")
    after, tensors = [], []
    for place, (term, tensor) in enumerate(zip(before, operands, strict=True)):
        others = result + "".join(before[:place] + before[place + 1 :])
        term, tensor = _without_own_dims(term, tensor, others)
        after.append(term)
        tensors.append(tensor)
    if len(tensors) == 1 and after != before:
        return tensors[0].permute([after[0].index(letter) for letter in result])
    letters = [set(term) for term in after]
    if len(tensors) == 2 and (letters[0] == letters[1] or set.union(*letters) == set(result)):
        return _summed_up(after, tensors, result)
    if len(tensors) > 2:
        needed = set(result).union(*letters[2:])
        first = "".join(sorted((letters[0] | letters[1]) & needed))
        joined = torch.einsum(f"{after[0]},{after[1]}->{first}", tensors[:2])
        return torch.einsum(f"{','.join([first, *after[2:]])}->{result}", [joined, *tensors[2:]])
    if len(tensors) == 2 and _joins_unknown(after, tensors, result):
        return _product(after, tensors, result)
    if after == before and "->" in equation:
        return NotImplemented
    return torch.einsum(f"{','.join(after)}->{result}", tensors)


def _without_own_dims(term: str, tensor: Any, others: str) -> tuple[str, Any]:
    """Case 1, of an operand; `others` are the dims of the result and of other operands."""
    for letter in sorted(set(term)):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            tensor = torch.diagonal(tensor, dim1=first, dim2=second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
        if letter not in others:
            tensor = tensor.sum(term.index(letter))
            term = term.replace(letter, "")
    return term, tensor


def _summed_up(terms: Sequence[str], tensors: Sequence[Any], result: str) -> Any:
    """Case 3."""
    order = [*result, *(letter for letter in terms[0] if letter not in result)]
    one, other = (_along(tensor, term, order) for term, tensor in zip(terms, tensors, strict=True))
    summed = list(range(len(result), len(order)))
    return (one * other).sum(summed) if summed else one * other


def _kinds(terms: Sequence[str], result: str) -> list[list[str]]:
    """The letters of both operands and the result, of the first, of the second, and the summed."""
    one, other = terms
    return [
        [letter for letter in result if letter in one and letter in other],
        [letter for letter in result if letter not in other],
        [letter for letter in result if letter not in one],
        [letter for letter in one if letter not in result],
    ]


def _joins_unknown(terms: Sequence[str], tensors: Sequence[Any], result: str) -> bool:
    """Whether IREE 3.13's import joins dims of a kind of which two are unknown, and takes all but
    the first of these for 1."""
    unknown = {
        letter
        for term, tensor in zip(terms, tensors, strict=True)
        for letter, size in zip(term, tensor.shape, strict=True)
        if isinstance(size, torch.SymInt)
    }
    return any(len(unknown.intersection(kind)) > 1 for kind in _kinds(terms, result))


def _product(terms: Sequence[str], tensors: Sequence[Any], result: str) -> Any:
    """An einsum of two operands as a product of matrices, in batches of the shared dims."""
    shared, rows, columns, summed = _kinds(terms, result)
    sizes = {
        letter: size
        for term, tensor in zip(terms, tensors, strict=True)
        for letter, size in zip(term, tensor.shape, strict=True)
    }
    joined = []
    orders = (shared, rows, summed), (shared, summed, columns)
    for order, term, tensor in zip(orders, terms, tensors, strict=True):
        tensor = tensor.permute([term.index(letter) for kind in order for letter in kind])
        counts = [math.prod(sizes[letter] for letter in kind) for kind in order]
        joined.append(tensor.reshape(counts))
    made = [*shared, *rows, *columns]
    product = torch.bmm(*joined).reshape([sizes[letter] for letter in made])
    return product.permute([made.index(letter) for letter in result])


def _along(tensor: Any, term: str, order: Sequence[str]) -> Any:
    """A tensor with its dims in this order, and one of size one for each that it lacks."""
    tensor = tensor.permute([term.index(letter) for letter in order if letter in term])
    for place, letter in enumerate(order):
        if letter not in term:
            tensor = tensor.unsqueeze(place)
    return tensor


def _spelled(equation: str, operands: Any) -> str:
    """An einsum with letters in place of its dots, and a result; as it is where dots are dims that
    operands do not share."""
    terms, arrow, result = equation.partition("->")
    named = terms.replace("...", "").replace(",", "")
    if not arrow:
        result = "..." * ("..." in terms)
        result += "".join(sorted(letter for letter in set(named) if named.count(letter) == 1))
    # No set: sizes that are known only at run time have no hash.
    shapes = [
        tuple(tensor.shape[term.index(".") : tensor.dim() - len(term.partition("...")[2])])
        for term, tensor in zip(terms.split(","), operands, strict=True)
        if "." in term
    ]
    if any(shape != shapes[0] for shape in shapes):
        return equation
    count = len(next(iter(shapes), ()))
    free = "".join(letter for letter in string.ascii_letters if letter not in named)[:count]
    return f"{terms}->{result}".replace("...", free)
