"""From similarity to codes: of the anchors first, then of any rows."""
