r"""LaTeX to MathML that Chromium, Firefox and Safari render alike; an unknown macro is an error that names the claim."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import lru_cache

from latex2mathml import converter
from markupsafe import Markup, escape

from verify.errors import VerifyError


class FormulaError(VerifyError):
    """A formula that cannot be rendered."""


# Unicode has styled letters for what LaTeX writes as \mathbf, \mathcal, ...; MathML Core knows no mathvariant but "normal".
_LATIN = {"bold": 0x1D400, "bold-italic": 0x1D468, "script": 0x1D49C, "bold-script": 0x1D4D0, "fraktur": 0x1D504, "double-struck": 0x1D538}
_LATIN |= {"sans-serif": 0x1D5A0, "monospace": 0x1D670}
_GREEK = {"bold": 0x1D6A8, "bold-italic": 0x1D71C}
_DIGITS = {"bold": 0x1D7CE, "bold-italic": 0x1D7CE, "double-struck": 0x1D7D8, "sans-serif": 0x1D7E2, "monospace": 0x1D7F6}
_HOLES = dict(zip(map(chr, (0x1D49D, 0x1D4A0, 0x1D4A1, 0x1D4A3, 0x1D4A4, 0x1D4A7, 0x1D4A8, 0x1D4AD)), "ℬℰℱℋℐℒℳℛ", strict=True))
_HOLES |= dict(zip(map(chr, (0x1D4BA, 0x1D4BC, 0x1D4C4, 0x1D506, 0x1D50B, 0x1D50C, 0x1D515, 0x1D51D)), "ℯℊℴℭℌℑℜℨ", strict=True))
_HOLES |= dict(zip(map(chr, (0x1D53A, 0x1D53F, 0x1D545, 0x1D547, 0x1D548, 0x1D549, 0x1D551)), "ℂℍℕℙℚℝℤ", strict=True))
_GREEK_EXTRA = {"∇": 25, "ϵ": 52, "ϑ": 53, "ϰ": 54, "ϕ": 55, "ϱ": 56, "ϖ": 57, "∂": 51}


def styled(character: str, variant: str) -> str:
    """The code point of a letter in a mathvariant; the letter itself where Unicode has none."""
    code = ord(character)
    if "A" <= character <= "Z" and variant in _LATIN:
        made = chr(_LATIN[variant] + code - ord("A"))
    elif "a" <= character <= "z" and variant in _LATIN:
        made = chr(_LATIN[variant] + 26 + code - ord("a"))
    elif "0" <= character <= "9" and variant in _DIGITS:
        made = chr(_DIGITS[variant] + code - ord("0"))
    elif "Α" <= character <= "Ω" and variant in _GREEK:
        made = chr(_GREEK[variant] + code - ord("Α"))
    elif "α" <= character <= "ω" and variant in _GREEK:
        made = chr(_GREEK[variant] + 26 + code - ord("α"))
    elif character in _GREEK_EXTRA and variant in _GREEK:
        made = chr(_GREEK[variant] + _GREEK_EXTRA[character])
    else:
        made = character
    return _HOLES.get(made, made)


def _upright(row: ET.Element) -> None:
    """Join runs of single upright letters (from \\mathrm) into one identifier, which every browser sets upright."""
    children = list(row)
    for child in children:
        row.remove(child)
    for child in children:
        normal = child.tag == "mi" and child.get("mathvariant") == "normal"
        last = row[-1] if len(row) else None
        if normal and last is not None and last.get("class") == "up":
            last.text = (last.text or "") + (child.text or "")
        elif normal:
            child.attrib = {"class": "up"}
            row.append(child)
        else:
            row.append(child)
    for child in row:
        if child.get("class") == "up":
            child.tag = "mi" if len(child.text or "") > 1 else "mtext"
            child.attrib = {}


_ARITY = {"mfrac": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "mroot": 2, "msubsup": 3, "munderover": 3}


def _mend(element: ET.Element, where: str, latex: str) -> None:
    if len(element) != _ARITY.get(element.tag, len(element)):
        raise FormulaError(f"{where}: an argument is missing in ${latex}$")
    variant = element.attrib.pop("mathvariant", None)
    if variant and variant != "normal" and element.text:
        element.text = "".join(styled(c, variant) for c in element.text)
    if element.text and "\\" in element.text:
        raise FormulaError(f"{where}: unknown macro {element.text.strip()} in ${latex}$; use a macro that latex2mathml knows")
    if element.tag == "mi" and element.text in ("⟨", "⟩"):
        element.tag = "mo"
        element.attrib = {"stretchy": "false", "form": "prefix" if element.text == "⟨" else "postfix"}
    if element.tag == "mo" and element.text and element.text.isalpha() and len(element.text) > 1:
        element.attrib = {"lspace": "0", "rspace": "0.17em"}
    if element.tag == "mo" and element.text in ("/", "|", "∣", "‖", "∥"):
        element.attrib |= {"lspace": "0", "rspace": "0"}  # as in TeX, where they are no operators
    if element.tag == "mi" and element.text and "Α" <= element.text <= "Ω":
        element.tag = "mtext"  # capital Greek is upright in LaTeX
    if any(c.get("mathvariant") == "normal" for c in element):
        _upright(element)
    for child in element:
        _mend(child, where, latex)


@lru_cache(maxsize=8192)
def formula(latex: str, where: str = "formula") -> Markup:
    """MathML of one formula (without dollars).

    Raises:
        FormulaError: naming `where` (the claim) if a macro is unknown or the LaTeX is malformed.
    """
    try:
        tree = ET.fromstring(converter.convert(latex))
    except Exception as error:
        raise FormulaError(f"{where}: cannot read ${latex}$: {type(error).__name__} {error}") from None
    for element in tree.iter():
        element.tag = element.tag.rpartition("}")[2]
    tree.attrib = {}
    _mend(tree, where, latex)
    return Markup(ET.tostring(tree, encoding="unicode"))


_SPAN = re.compile(r"\$([^$]+)\$|`([^`]+)`")
# A subscript is one character, as in TeX (σ_ps is σ_p times s), a number, a group in braces, or one of the names that the paper writes out.
_SUB = r"(\{[^{}]*\}|attn|SGN|\d+|[A-Za-zΑ-ω])"
_INDEX = re.compile(r"((?<![A-Za-z_\\])[A-Za-zΑ-ω]|‖)_" + _SUB + r"(?![a-z]*_)(?:\^(\{[^{}]*\}|[-+A-Za-z0-9−]+))?")
_POWER = re.compile(r"(?<=[\w)\]])\^(\{[^{}]*\}|[-+−]?\d+(?:/\d+)?|[-+−])")


def _powers(text: str) -> Markup:
    out, last = Markup(), 0
    for match in _POWER.finditer(text):
        out += escape(text[last : match.start()]) + Markup("<sup>{}</sup>").format(match[1].strip("{}").replace("-", "−"))
        last = match.end()
    return out + escape(text[last:])


def plain(text: str) -> Markup:
    """Escaped text with plain indices and powers such as T_1, T_4^- or s^{-1/2} set as such; code names with longer stems stay."""
    out, last = Markup(), 0
    for match in _INDEX.finditer(text):
        base = Markup("<i>{}</i>").format(match[1]) if match[1].isalpha() else escape(match[1])
        out += _powers(text[last : match.start()]) + base + Markup("<sub>{}</sub>").format(match[2].strip("{}"))
        if match[3]:
            out += Markup("<sup>{}</sup>").format(match[3].strip("{}").replace("-", "−"))
        last = match.end()
    return out + _powers(text[last:])


def _bare(text: str) -> list[tuple[int, int]]:
    """Spans of LaTeX macros with their groups and scripts that stand in running text without dollars."""
    spans: list[tuple[int, int]] = []
    for match in re.finditer(r"\\[A-Za-z]+", text):
        if spans and match.start() < spans[-1][1]:
            continue
        end = match.end()
        while end < len(text) and (text[end] == "{" or (text[end] in "^_" and end + 1 < len(text))):
            end += text[end] in "^_"
            if text[end] != "{":
                end += 1
                continue
            depth = 0
            for k in range(end, len(text)):
                depth += {"{": 1, "}": -1}.get(text[k], 0)
                if depth == 0:
                    break
            end = k + 1
        spans.append((match.start(), end))
    return spans


def _lenient(text: str) -> Markup:
    out, last = Markup(), 0
    for start, end in _bare(text):
        try:
            made = formula(text[start:end])
        except FormulaError:
            made = Markup("<code>{}</code>").format(text[start:end])
        out += plain(text[last:start]) + made
        last = end
    return out + plain(text[last:])


def prose(text: str | None, where: str = "text", *, strict: bool = True) -> Markup:
    """Running text with $formulas$ and `code`, everything else escaped.

    Args:
        strict: for texts that people wrote. False, for what programs wrote (reasons, exceptions): nothing raises; LaTeX without dollars is
            rendered where it can be, and shown as code where it cannot.

    Raises:
        FormulaError: see `formula`; only if `strict`.
    """
    text = text or ""
    rest = plain if strict else _lenient
    out, last = Markup(), 0
    for match in _SPAN.finditer(text):
        out += rest(text[last : match.start()])
        last = match.end()
        if match[1] is None:
            out += Markup("<code>{}</code>").format(match[2])
        elif strict:
            out += formula(match[1], where)
        else:
            try:
                out += formula(match[1])
            except FormulaError:
                out += Markup("<code>{}</code>").format(match[1])
    return out + rest(text[last:])
