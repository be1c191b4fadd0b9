/* The search page: finds sections with MiniSearch, shows page, title and an excerpt. */
"use strict";

(function () {
  const MOST = 30; // results shown
  const AROUND = 110; // characters of the excerpt on either side of the first hit

  const sections = window.LAB15_SECTIONS;
  const index = new MiniSearch({
    fields: ["title", "page", "text"],
    searchOptions: {
      boost: { title: 6, page: 2 },
      combineWith: "AND",
      prefix: (word) => word.length > 2,
      fuzzy: (word) => (word.length > 5 ? 0.15 : false),
    },
  });
  index.addAll(sections);

  /* Return results, best first; a section that has the words as they were typed comes first. */
  function look(query) {
    const typed = query.trim().toLowerCase();
    return index
      .search(query)
      .map((hit) => {
        const section = sections[hit.id];
        const whole = `${section.title} ${section.text}`.toLowerCase().includes(typed);
        const score = hit.score * section.weight * (whole ? 2 : 1);
        return { section, score, words: hit.terms };
      })
      .sort((a, b) => b.score - a.score);
  }

  function pattern(words) {
    const safe = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    safe.sort((a, b) => b.length - a.length);
    return new RegExp(`(${safe.join("|")})`, "gi");
  }

  /* Return a node with the text, the words in it marked. */
  function marked(text, words) {
    const line = document.createElement("span");
    for (const [i, part] of text.split(pattern(words)).entries()) {
      const node = i % 2 ? document.createElement("mark") : document.createTextNode("");
      node.textContent = part;
      line.append(node);
    }
    return line;
  }

  function excerpt(text, query, words) {
    let at = text.toLowerCase().indexOf(query.trim().toLowerCase());
    if (at < 0) at = Math.max(0, text.search(pattern(words)));
    let from = Math.max(0, at - AROUND);
    if (from > 0) from = text.indexOf(" ", from) + 1;
    let to = Math.min(text.length, at + AROUND + query.length);
    if (to < text.length) to = Math.max(text.lastIndexOf(" ", to), at + query.length);
    return `${from > 0 ? "... " : ""}${text.slice(from, to)}${to < text.length ? " ..." : ""}`;
  }

  const box = document.getElementById("lab15-query");
  const list = document.getElementById("lab15-found");
  const count = document.getElementById("lab15-count");

  function show() {
    const query = box.value;
    const found = query.trim() ? look(query) : [];
    const more = found.length > MOST ? `, the first ${MOST} of them here` : "";
    count.textContent = !query.trim()
      ? `${sections.length} sections can be searched.`
      : found.length
        ? `${found.length} section${found.length > 1 ? "s" : ""} with "${query.trim()}"${more}.`
        : `Nothing found for "${query.trim()}". Try another word, or fewer.`;
    list.replaceChildren(
      ...found.slice(0, MOST).map(({ section, words }) => {
        const item = document.createElement("li");
        const link = document.createElement("a");
        link.href = section.at;
        link.append(marked(section.title, words));
        const page = document.createElement("span");
        page.className = "where";
        page.textContent = section.title === section.page ? "" : ` in ${section.page}`;
        const text = document.createElement("p");
        text.append(marked(excerpt(section.text, query, words), words));
        item.append(link, page, text);
        return item;
      }),
    );
  }

  box.value = new URLSearchParams(window.location.search).get("q") || "";
  box.addEventListener("input", show);
  document.getElementById("lab15-search").addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  show();
  box.focus();
})();
