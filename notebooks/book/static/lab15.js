/* Small helps of every page; all of it can be read without them. */
"use strict";

/* Hints print open, and close again afterwards. */
(function () {
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((fold) => fold.setAttribute("open", ""));
  });
  window.addEventListener("afterprint", () => {
    closed.forEach((fold) => fold.removeAttribute("open"));
  });
})();

/* What is wider than the page scrolls in its own box, and says so. */
(function () {
  const BOXES = ".table-wrapper, article figure, div.math, div.highlight > pre, .cell_output";

  function mark() {
    for (const box of document.querySelectorAll(BOXES)) {
      const wide = box.scrollWidth > box.clientWidth + 4;
      box.classList.toggle("lab15-wide", wide);
      if (wide) {
        box.setAttribute("tabindex", "0");
        if (!box.nextElementSibling || !box.nextElementSibling.matches(".lab15-more")) {
          const note = document.createElement("p");
          note.className = "lab15-more";
          note.textContent = "scroll sideways to see the rest \u2192";
          box.after(note);
        }
      }
    }
  }

  window.addEventListener("load", mark);
  window.addEventListener("resize", mark);
  document.addEventListener("toggle", mark, true);
})();

/* A picture opens by itself, to be enlarged. */
document.addEventListener("DOMContentLoaded", () => {
  for (const image of document.querySelectorAll("article figure > img")) {
    if (!image.src.startsWith("data:")) {
      const link = document.createElement("a");
      link.href = image.src;
      link.title = "open the picture by itself";
      image.replaceWith(link);
      link.append(image);
    }
  }
});
