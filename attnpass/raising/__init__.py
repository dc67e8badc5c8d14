"""Attention that is written out as products and a softmax, made an attention op.

Frameworks order the dims of these steps as they like, and cut, join and repeat them between.
So what a step reads is said in *axes*, factors of sizes, through all such views.

    axes        axes, and how views of tensors order, cut and join them
    elements    an element of a tensor as an expression of others at the same axes
    products    matrix products, and what their loops stand for
    reductions  sums and maxima over the keys
    readers     what is made of the scores, and by which ops
    scores      what becomes of a product of Q and K before its exponentials
    find        one attention as a whole: facts, or why it is none
    build       the op
    rewrite     all of a module
"""
