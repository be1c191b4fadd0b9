"""A Sphinx extension: what a book has and plain Markdown has not.

- A picture and the paragraph after it that begins in italics become a numbered figure.
- Formulas that stand alone get numbers.
- arXiv numbers become links.
- Short code does not break at a hyphen.
- Glossary terms, the five functions and the settings get entries in the index.
"""

import re

from docutils import nodes
from docutils.transforms import Transform

ARXIV = re.compile(  # year, month, number; no part of a longer number or of an address
    r"(?<![\w./-])((?:0[7-9]|[12]\d)(?:0[1-9]|1[0-2])\.\d{4,5})(?:v\d+)?(?!\w|\.\d)")
SHORT = 36  # characters of code that stay on one line; they fit on a phone
FUNCTIONS = ("sample_group", "group_advantages", "k3_kl", "grpo_loss", "grpo_step", "train_grpo",
             "sequence_logprobs", "token_entropy")
SETTINGS = ("inner_steps", "clip_eps", "beta", "scale_std", "max_grad_norm", "temperature",
            "prompts_per_iter", "lr", "G")
# Names that no glossary explains, and that a reader looks up all the same.
NAMES = ("CISPO", "DAPO", "Dr. GRPO", "DeepSeekMath", "GSPO", "PPO", "REINFORCE", "RLOO", "SAPO",
         "TIS", "TRL", "forge-rl", "torchforge", "verl", "pass@k", "entropy", "zero-signal", "k1",
         "k2", "dual clip", "importance sampling")
FEWEST = 2  # times that a section names a term before it is listed for it, or once in its title
OFTEN = {"G": 8, "lr": 3}  # names that stand in nearly every section
MOST = 6  # places that the index names for a term


def prefix_of(docname):
    """Return "3." for section-3: the start of the numbers in a page."""
    found = re.fullmatch(r"section-(\d+)", docname)
    return f"{found[1]}." if found else ""


class Figures(Transform):
    """Make figures of pictures, and number them."""

    default_priority = 600

    def apply(self):
        """Change the tree."""
        docname = self.document.settings.env.docname
        number = 0
        for paragraph in list(self.document.findall(nodes.paragraph)):
            image = alone(paragraph)
            if image is None:
                continue
            number += 1
            figure = nodes.figure("", image, ids=[f"figure-{number}"])
            words = nodes.inline("", f"Figure {prefix_of(docname)}{number}. ",
                                 classes=["figure-number"])
            caption = nodes.caption("", "", words)
            below = after(paragraph)
            if below is not None:
                caption += below.children
                below.parent.remove(below)
            figure += caption
            paragraph.replace_self(figure)


def alone(paragraph):
    """Return the picture that is all of a paragraph, or None."""
    rest = [c for c in paragraph.children
            if not (isinstance(c, nodes.Text) and not c.astext().strip())]
    return rest[0] if len(rest) == 1 and isinstance(rest[0], nodes.image) else None


def after(paragraph):
    """Return the paragraph after this one if it begins in italics: it is the caption."""
    siblings = paragraph.parent.children
    rest = [n for n in siblings[siblings.index(paragraph) + 1:] if not isinstance(n, nodes.comment)]
    first = rest[0] if rest and isinstance(rest[0], nodes.paragraph) else None
    return first if first is not None and isinstance(first.children[0], nodes.emphasis) else None


class Formulas(Transform):
    """Number the formulas that stand alone."""

    default_priority = 600

    def apply(self):
        """Change the tree."""
        prefix = prefix_of(self.document.settings.env.docname)
        for i, node in enumerate(self.document.findall(nodes.math_block), 1):
            if prefix:
                node["lab_number"] = f"{prefix}{i}"


class Papers(Transform):
    """Make arXiv numbers links, and keep short code on one line."""

    default_priority = 600

    def apply(self):
        """Change the tree."""
        for text in list(self.document.findall(nodes.Text)):
            inside = (nodes.literal, nodes.literal_block, nodes.reference, nodes.math,
                      nodes.math_block, nodes.raw, nodes.comment)
            if ARXIV.search(text.astext()) and not within(text, inside):
                text.parent.replace(text, list(linked(text.astext())))
        for code in self.document.findall(nodes.literal):
            if len(code.astext()) <= SHORT:
                code["classes"].append("short")


def within(node, kinds):
    """Return whether a node is inside one of some kinds."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def linked(text):
    """Yield a text's parts, its arXiv numbers as links."""
    last = 0
    for match in ARXIV.finditer(text):
        yield nodes.Text(text[last:match.start()])
        yield nodes.reference("", match[0], refuri=f"https://arxiv.org/abs/{match[1]}",
                              internal=False)
        last = match.end()
    yield nodes.Text(text[last:])


# ============================================================== the index


def glossary(doctree):
    """Return the terms of a page's section whose title ends in "Glossary"."""
    terms = []
    for section in doctree.findall(nodes.section):
        if section[0].astext().lower().endswith("glossary"):
            terms += [row[0].astext().strip(" .:") for row in section.findall(nodes.row)
                      if within(row, nodes.tbody)]
    return list(dict.fromkeys(t for t in terms if 1 < len(t) < 50))


UNSEEN = nodes.comment | nodes.raw | nodes.image | nodes.section


def own_text(section):
    """Return (title, the text of a section that a reader sees, in one line).

    Left out are the sections in it, and outputs of notebooks.
    """
    title, *rest = section.deepcopy().children
    body = nodes.container("", *rest)
    for node in list(body.findall(nodes.Element)):
        if isinstance(node, UNSEEN) or "cell_output" in node.get("classes", ()):
            node.parent.remove(node)
    return title.astext(), " ".join(body.astext().split())


def put_index(app, env):
    """Add the entries of the index: where a term, a function or a setting is spoken of most."""
    trees = {name: env.get_doctree(name) for name in sorted(env.found_docs)}
    kinds = {name: "" for tree in trees.values() for name in glossary(tree)}
    kinds |= {name: "" for name in NAMES if name.lower() not in map(str.lower, kinds)}
    kinds |= {name: " (function)" for name in FUNCTIONS} | {n: " (setting)" for n in SETTINGS}
    texts = [(docname, section["ids"][0], *own_text(section)) for docname, tree in trees.items()
             for section in tree.findall(nodes.section)]
    entries = env.get_domain("index").entries
    for name, kind in kinds.items():
        as_word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)", 0 if kind else re.IGNORECASE)
        hits = []
        for docname, target, title, text in texts:
            count = len(as_word.findall(text))
            explained = title.lower().endswith("glossary") and count
            fewest = OFTEN.get(name, 1 if kind else FEWEST)  # code names are rarely said by chance
            if explained or as_word.search(title) or count >= fewest:
                weight = 2 if prefix_of(docname) else 1
                hits.append((bool(explained), bool(as_word.search(title)), weight * count,
                             docname, target))
        for *_, docname, target in sorted(hits, reverse=True)[:MOST]:
            entries.setdefault(docname, []).append(("single", name + kind, target, "", None))
    return []


def setup(app):
    """Register all of it."""
    for transform in (Figures, Formulas, Papers):
        app.add_transform(transform)
    app.connect("env-updated", put_index)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
