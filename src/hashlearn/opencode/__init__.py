"""Codes for an open world: one stored code says what a row is like and which label it has.

A code is a label word of 12 bits and nibbles (4 bits) of content; without labels it is nibbles only. A stored row x has
for a query q the score ::

    sum over nibbles of <z_q, h_x> - |h_x|^2 / 2   +   strength * familiarity(q) * <p_q, w_x>

where z_q is the query in the metric, h_x are the decoded nibbles of x, p_q are the label probabilities of the query and
w_x is the label word of x. Strength and familiarity depend on the query and on the emphasis, which the user chooses in
each search, so the same codes answer "most alike" and "same label". Read in this order:

1. ``metric``: rows to content vectors z, in a metric that labels teach
2. ``labels``: rows to label scores and label probabilities p, and how well a query fits any known label (familiarity)
3. ``coder``: label words and nibbles, rows to codes, and queries to score tables by the formula above
4. ``learn``: the pass over all rows, and the parts of the coder from its sums
5. ``open_hasher``: OpenHasher, the estimator; ``report``, and ``updates`` (``partial_fit`` and migration)
"""
