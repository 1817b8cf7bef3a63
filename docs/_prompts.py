"""Examples of the site copy as they are: prompts go, and what is printed becomes a comment.

In the sources of the pages examples keep their ``>>>``, so that they are tested as they stand (tests/test_docs.py).
"""

import doctest
import re
from typing import Any

BLOCK = re.compile(r"(```python\n)(.*?)(```)", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return BLOCK.sub(lambda found: found[1] + without_prompts(found[2]) + found[3], markdown)


def without_prompts(code: str) -> str:
    """Code with its output in comments; of a traceback only the last line, which says what is wrong."""
    parts = []
    for part in doctest.DocTestParser().parse(code):
        if isinstance(part, str):
            parts.append(part)
            continue
        said = [part.exc_msg] if part.exc_msg else [part.want]
        parts += [part.source, *(f"# {line}\n" for line in "".join(said).splitlines())]
    return re.sub(r"\n{2,}\Z", "\n", "".join(parts))
