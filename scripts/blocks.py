"""Fills the generated parts of a page, from `<!-- NAME -->` to `<!-- /NAME -->`."""

import re

from ut_keras.errors import UserError


def fill(page, texts):
    """Return the page with new texts in its blocks.

    Args:
        page: str, the page.
        texts: dict from the name of a block to its new text.

    Raises:
        UserError: if a block does not occur exactly once on the page.
    """
    for name, text in texts.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        parts = re.split(f"{re.escape(begin)}.*?{re.escape(end)}", page, flags=re.DOTALL)
        if len(parts) != 2:
            raise UserError(
                f"The page must have the block {name!r} once. Received: {len(parts) - 1} blocks."
            )
        page = f"{begin}{text}\n{end}".join(parts)
    return page


def table(rows):
    """Return rows as a Markdown table. The first row is the header."""
    lines = (" | ".join(str(cell).replace("|", "\\|") for cell in row) for row in rows)
    head, *rest = (f"| {line} |" for line in lines)
    return "\n".join([head, "| " + " | ".join(["---"] * len(rows[0])) + " |", *rest]) + "\n"
