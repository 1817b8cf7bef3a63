"""Formulas of the documentation as MathML, written at build time: browsers show it by themselves, without scripts.

A hook of mkdocs (`hooks` in mkdocs.yml). The extension arithmatex marks formulas, this turns their TeX into MathML.
"""

import html
import re

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(page_html, **_):
    """Called by mkdocs with the HTML of every page."""
    return FORMULA.sub(lambda found: mathml(html.unescape(found[3]), display=found[2] == "["), page_html)


def mathml(tex, *, display):
    """One formula; a fault in its TeX stops the build."""
    found = convert(" ".join(tex.split()), display="block" if display else "inline")
    if "\\" in found:
        raise ValueError(f"a formula has a command that is not known here: {tex}")
    return found
