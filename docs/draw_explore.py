"""Draw the picture of the page to explore: a browser opens it and takes a screenshot.

    python docs/draw_explore.py

Needs the extra `pathexp[web]`, playwright, and an installed chromium.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pathexp as px

TEXT = "Macbeth shall sleep no more. Macbeth shall"
PICTURES = Path(__file__).resolve().parent / "pictures"


def draw(scheme: str, file: Path) -> None:
    """Write a screenshot of the page as it opens, in a color scheme."""
    from playwright.sync_api import sync_playwright  # pytest reads this file where it is not installed

    served = px.explore(px.load("attn-2l"), TEXT)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 680}, color_scheme=scheme)
        page.goto(served.url)
        page.wait_for_selector("#verdict.holds")
        page.wait_for_timeout(800)
        page.screenshot(path=file)
        browser.close()
    served.stop()


if __name__ == "__main__":
    draw("light", PICTURES / "explore.png")
