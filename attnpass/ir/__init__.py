"""The IR as the rest of the library sees it: the one package that creates, clones and erases
ops, and that knows what bites there.

Everything else reads the IR or asks a `Builder` for new ops. Handles to erased ops are
never kept: `erase_dead` is the last step of a rewrite. Nothing here knows the concepts of
the packages beside it, maps apart.

    types, queries, attributes, sizes   read the IR
    bodies                              reads scalars in the bodies of ops
    locations                           show and number the places of ops
    refusal                             says why, in place of a result
    scalars, builder, regions           make new ops
    rewrite                             replaces, erases and restores ops
    printing                            shows an op alone
"""

from .attributes import (
    copied_attributes,
    index_array,
    known_attribute,
    remove_attributes,
    set_attribute,
)
from .bodies import (
    INDEX_OPS,
    below_casts,
    body_names,
    body_of,
    body_ops,
    constant_number,
    element_number,
    filled_with,
    index_dim,
    index_ops,
    scalar_number,
    splat_number,
    summand,
    whole_number,
    yielded,
)
from .builder import Builder, fill_builtin_region
from .locations import location_text, number_at, number_of, path_text, set_number
from .queries import (
    collect,
    concat_dim,
    defining_op,
    descendants,
    full_name,
    has_ancestor,
    has_one_use,
    is_used,
    iterator_kinds,
    next_op,
    reduces,
    symbol_name,
    users,
)
from .refusal import Refusal
from .regions import (
    add_function,
    append_op,
    copy_generic,
    copy_product,
    copy_region,
    copy_steps,
    fill_region,
    set_function_type,
)
from .rewrite import (
    StandIn,
    detached_copy,
    erase,
    erase_dead,
    erase_unused,
    put_in_place,
    replace_reads,
    restore,
)
from .sizes import (
    DynamicSize,
    Size,
    SizeProduct,
    completed,
    index_size,
    product,
    size_values,
    sizes_of,
    static_size,
)
from .types import (
    DYNAMIC,
    element_bytes,
    element_of,
    element_type,
    element_type_name,
    is_float,
    is_ranked_tensor,
    is_scalar,
    ranked_shape,
    tensor_bytes,
    with_element,
)

__all__ = [
    "DYNAMIC",
    "INDEX_OPS",
    "Builder",
    "DynamicSize",
    "Refusal",
    "Size",
    "SizeProduct",
    "StandIn",
    "add_function",
    "append_op",
    "below_casts",
    "body_names",
    "body_of",
    "body_ops",
    "collect",
    "completed",
    "concat_dim",
    "constant_number",
    "copied_attributes",
    "copy_generic",
    "copy_product",
    "copy_region",
    "copy_steps",
    "defining_op",
    "descendants",
    "detached_copy",
    "element_bytes",
    "element_number",
    "element_of",
    "element_type",
    "element_type_name",
    "erase",
    "erase_dead",
    "erase_unused",
    "fill_builtin_region",
    "fill_region",
    "filled_with",
    "full_name",
    "has_ancestor",
    "has_one_use",
    "index_array",
    "index_dim",
    "index_ops",
    "index_size",
    "is_float",
    "is_ranked_tensor",
    "is_scalar",
    "is_used",
    "iterator_kinds",
    "known_attribute",
    "location_text",
    "next_op",
    "number_at",
    "number_of",
    "path_text",
    "product",
    "put_in_place",
    "ranked_shape",
    "reduces",
    "remove_attributes",
    "replace_reads",
    "restore",
    "scalar_number",
    "set_attribute",
    "set_function_type",
    "set_number",
    "size_values",
    "sizes_of",
    "splat_number",
    "static_size",
    "summand",
    "symbol_name",
    "tensor_bytes",
    "users",
    "whole_number",
    "with_element",
    "yielded",
]
