"""The explore page in a browser, and what every walk through it watches: messages, requests."""

import contextlib
import re

from instructor.tests import browser

SCENES = ["A group", "Advantages", "Ratio and clip", "The loss", "A step", "Losses", "Training",
          "Yours"]
WIDTHS = {"a phone": 390, "a laptop": 1280, "a projector": 1920}


class Walk:
    """One opened page, and everything it said or asked for that it should not have."""

    def __init__(self, page, path):
        self.page, self.path, self.faults = page, path, []
        page.on("console", lambda m: self.faults.append(f"console {m.type}: {m.text}"))
        page.on("pageerror", lambda e: self.faults.append(f"error: {e}"))
        page.on("request", self._request)

    def _request(self, request):
        if not request.url.startswith("data:") and request.url.split("#")[0] != self.path.as_uri():
            self.faults.append(f"request: {request.url}")

    def visit(self, state=""):
        """Open the page in a state, such as "scene=3&guesses=0", as a link from elsewhere does."""
        self.page.goto("about:blank")
        self.page.goto(self.path.as_uri() + (f"#{state}" if state else ""))
        self.page.wait_for_selector("#scene-title")

    def text(self, selector="#main"):
        """Return what can be read in an element, with single spaces and ASCII minus signs."""
        text = self.page.inner_text(selector).replace("\u2212", "-")
        return re.sub(r"\s+", " ", text)

    def says(self):
        """Return the sentences below the scene's pictures."""
        return [self.text_of(e) for e in self.page.query_selector_all("figcaption")]

    @staticmethod
    def text_of(element):
        """Return the text of one element as `text` does."""
        return re.sub(r"\s+", " ", element.inner_text().replace("\u2212", "-"))

    def settle(self):
        """Wait until the page has drawn the last change."""
        self.page.evaluate("() => new Promise(r => requestAnimationFrame("
                           "() => requestAnimationFrame(r)))")

    def click(self, selector):
        """Click, and let the page draw."""
        self.page.click(selector)
        self.settle()

    def press(self, *keys):
        """Press keys one after the other, and let the page draw after each."""
        for key in keys:
            self.page.keyboard.press(key)
            self.settle()

    def slide(self, name, value):
        """Move a slider to a value, as dragging it there does."""
        self.page.eval_on_selector(f"#{name}", """(e, v) => {
            e.value = v; e.dispatchEvent(new Event("input", {bubbles: true})); }""", str(value))
        self.settle()

    def focused(self):
        """Return the id, or else the text, of what has the keyboard's focus."""
        return self.page.evaluate("document.activeElement.id || document.activeElement.innerText")


class Walks:
    """Opens walks over one page, each in a window of its own of the same browser.

    Args:
        started: a browser of browser.chromium.
        path: the page, a Path.
    """

    def __init__(self, started, path):
        self.started, self.path = started, path

    @contextlib.contextmanager
    def __call__(self, width=1280, strict=False, **options):
        """Yield a Walk; at the end, fail if the page said or asked for anything.

        Args:
            width: of the window, in pixels.
            strict: whether the page's security policy counts; Playwright's wait_for_function
                evaluates text, which that policy forbids.
            **options: of Playwright's emulate_media, such as color_scheme="dark".
        """
        page = self.started.new_page(viewport={"width": width, "height": 900},
                                     bypass_csp=not strict)
        page.set_default_timeout(1000 * browser.PATIENCE)
        if options:
            page.emulate_media(**options)
        walked = Walk(page, self.path)
        yield walked
        page.close()
        assert walked.faults == []
