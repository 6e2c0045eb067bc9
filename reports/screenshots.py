"""Pictures of a report for looking at: desktop and phone width, light and dark, and print; `python -m reports.screenshots RUN_DIR OUT_DIR`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = ["--no-sandbox", "--headless=new", "--disable-gpu", "--force-color-profile=srgb", "--hide-scrollbars"]
SIZES = {"desktop": (1280, 900), "phone": (360, 740)}
SLICE = 2400
"""Height of one picture in CSS pixels: a whole page is cut into slices that a person can look at."""


def shoot(page_file: Path, out: Path, *, open_cards: int = 6) -> list[Path]:
    """Write the pictures of one page and return their paths.

    Args:
        page_file: index.html. out: an existing or new directory. open_cards: how many cards are opened on the screen pictures.

    Raises:
        RuntimeError: if there is no Chromium.
    """
    from playwright.sync_api import sync_playwright

    if CHROMIUM is None:
        raise RuntimeError("no Chromium found; install the package `chromium`")
    out.mkdir(parents=True, exist_ok=True)
    made: list[Path] = []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for size, (width, height) in SIZES.items():
            for scheme in ("light", "dark"):
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce")
                page.set_default_timeout(120_000)  # a whole page on a busy machine takes its time
                page.goto(page_file.resolve().as_uri())
                page.evaluate("n => [...document.querySelectorAll('details.card')].slice(0, n).forEach(d => d.open = true)", open_cards)
                total = page.evaluate("document.documentElement.scrollHeight")
                for k, top in enumerate(range(0, min(total, 12 * SLICE), SLICE)):
                    made.append(out / f"{size}-{scheme}-{k:02d}.png")
                    clip: Any = {"x": 0, "y": top, "width": width, "height": min(SLICE, total - top)}
                    page.screenshot(path=made[-1], clip=clip, full_page=True)
                page.close()
        page = browser.new_page()
        page.goto(page_file.resolve().as_uri())
        pdf = out / "print.pdf"
        page.pdf(path=pdf, format="A4", prefer_css_page_size=True, print_background=True)
        made.append(pdf)
        browser.close()
    if shutil.which("pdftoppm"):
        subprocess.run(["pdftoppm", "-gray", "-r", "60", "-png", "-l", "12", str(pdf), str(out / "print")], check=True)
        made += sorted(out.glob("print-*.png"))
    return made


def main() -> None:
    """Entry point: RUN_DIR holds index.html."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m reports.screenshots RUN_DIR OUT_DIR")
    source = Path(sys.argv[1])
    for path in shoot(source / "index.html" if source.is_dir() else source, Path(sys.argv[2])):
        print(path)


if __name__ == "__main__":
    main()
