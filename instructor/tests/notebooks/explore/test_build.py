"""The page is one file that asks nothing of the network, built the same way every time."""

import json
import re
from html.parser import HTMLParser

import pytest

from instructor.tests.notebooks.explore import engines
from notebooks import detective
from notebooks.experiments import RUNS, TABLE
from notebooks.explore import build, bundle, curves
from tests.labfile import ROOT


@pytest.fixture(scope="module")
def html():
    """The page as text."""
    return build.page_html()


class Reader(HTMLParser):
    """Collects the elements of a page with their attributes, and the text of its scripts."""

    def __init__(self):
        super().__init__()
        self.elements, self.scripts = [], []

    def handle_starttag(self, tag, attrs):
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        """Note the text of a script."""
        if self.lasttag == "script" and self.scripts:
            self.scripts[-1] += data


def test_the_page_is_one_file_that_fits(html):
    assert len(html.encode()) <= build.LARGEST
    reader = Reader()
    reader.feed(html)
    for tag, attributes in reader.elements:
        for name in ("src", "href", "data", "poster", "srcset", "action"):
            assert re.match(r"#|data:|$", attributes.get(name) or ""), (tag, attributes)
    assert not re.search(r"@import|url\(\s*[\"']?(?!data:|#)", html)
    assert not [tag for tag, _ in reader.elements if tag in ("link", "iframe", "object", "embed")
                and dict(_).get("rel") != "icon"]


def test_same_files_same_bytes(html):
    assert build.page_html() == html
    assert str(ROOT) not in html and "file://" not in html


def test_data_of_the_page(html):
    found = re.search(r'<script type="application/json" id="page-data">(.*?)</script>', html, re.S)
    data = json.loads(found[1])
    assert set(data) == {"batches", "training", "runs", "detective", "mine", "own"}
    assert data["mine"] is None and data["own"] == []
    measured = [name for name in TABLE if (RUNS / f"{name}.json").exists()]
    assert [run["name"] for run in data["runs"]] == measured
    shown = {setting for run in data["runs"] for setting in run["shows"]}
    assert shown == set(curves.SETTINGS) and {"G", "beta", "clip", "inner", "lr"} <= shown
    for run in data["runs"] + data["detective"]["runs"]:
        for curve in run["curves"].values():
            assert len(set(map(len, curve.values()))) == 1
            for low, mean, high in zip(curve["low"], curve["mean"], curve["high"]):
                room = 1e-3 * max(abs(low), abs(high))  # each is rounded to four digits
                assert low - room <= mean <= high + room
    assert [run["number"] for run in data["detective"]["runs"]] == list(detective.NUMBERS)


def test_models_of_the_page_have_their_provenance():
    page = build.read_page()
    training = page["training"]
    for key in ("command", "commit", "machine", "seconds", "seed", "torch"):
        assert training[key] not in ("", None), key
    assert 12 <= len(page["models"]) <= 16 and page["iterations"][0] == 0
    assert page["iterations"] == sorted(set(page["iterations"]))
    assert len(training["history"]["loss"]) == page["iterations"][-1] == 300
    assert not training["commit"].endswith("+"), "recorded with changes that are not committed"


def test_batches_show_what_the_scenes_are_about():
    """Both signs of the advantage, a clip that binds for each, responses of several lengths."""
    batches = build.read_page()["batches"]["loss"]
    for name, batch in batches.items():
        assert len(set(batch["rewards"])) == 2, name
        assert len(batch["mask"]) != len(batch["mask"][0])  # or a wrong axis would not show
    bound = set()
    for batch in batches.values():
        for i, A in enumerate(batch["adv"]):
            for t, real in enumerate(batch["mask"][i]):
                rho = engines.np.exp(batch["logp"][i][t] - batch["old_logp"][i][t])
                if real and ((A > 0 and rho > 1.2) or (A < 0 and rho < 0.8)):
                    bound.add(A > 0)
    assert bound == {True, False}
    lengths = {name: list(map(sum, batch["mask"])) for name, batch in batches.items()}
    assert len(set(lengths["two"])) > 1
    long = batches["long"]
    assert max(n for n, r in zip(lengths["long"], long["rewards"]) if r == 0) == 4


def test_the_detective_has_one_bug_for_every_run():
    found = curves.detective()
    assert len(set(found["pairs"])) == len(detective.BUGS)
    hashes = {curves.fnv(f"{found['salt']} {n}={letter}")
              for n in detective.NUMBERS for letter in detective.BUGS}
    assert len(hashes) == len(detective.BUGS) ** 2  # no two pairs share a hash
    assert len(hashes & set(found["pairs"])) == len(detective.BUGS)


def test_a_run_that_ended_early_counts_as_far_as_it_goes():
    runs = [{"history": {"loss": [1.0] * 25, "eval_iter": [0, 10, 20]}},
            {"history": {"loss": [3.0] * 11, "eval_iter": [0, 10]}}]
    found = curves.curve(runs, "loss")
    assert found == {"x": [10, 20, 25], "mean": [2.0, 2.0, 1.0], "low": [1.0] * 3,
                     "high": [3.0, 3.0, 1.0]}


# ============================================================== modules


def written(folder, **files):
    """Write modules into a folder; return the path of main.js."""
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder / "main.js"


def test_modules_are_put_together_in_order(tmp_path):
    main = written(
        tmp_path,
        main='import { one as first, two } from "./b.js";\nimport {\n  three,\n} from "./a.js";\n'
             "\nexport const all = [first(), two, three];\nconsole.log(JSON.stringify(all));\n",
        a='import { two } from "./b.js";\nexport const three = two + 1;\n',
        b="export function one() {\n  return 1;\n}\nconst hidden = 2;\nexport { hidden as two };\n",
    )
    text = bundle.bundle(main, tmp_path)
    assert text.index("const b =") < text.index("const a =") < text.index("const main =")
    program = engines.node().program
    done = engines.subprocess.run([program, "-e", text], capture_output=True, encoding="utf-8")
    assert done.stdout.strip() == "[1,2,3]", done.stderr


@pytest.mark.parametrize("files, words", [
    ({"main": 'import x from "./a.js";\n'}, "cannot be bundled"),
    ({"main": 'import * as x from "./a.js";\n'}, "cannot be bundled"),
    ({"main": 'const x = await import("./a.js");\n'}, "cannot be bundled"),
    ({"main": 'import { x } from "lit";\n'}, "cannot be bundled"),
    ({"main": "export default 3;\n"}, "cannot be bundled"),
    ({"main": 'import { x } from "./a.js";\n'}, "is not there"),
    ({"main": 'import { x } from "./a.js";\n',
      "a": 'import { y } from "./main.js";\n'}, "import each other"),
])
def test_another_form_is_refused(tmp_path, files, words):
    with pytest.raises(ValueError, match=words):
        bundle.bundle(written(tmp_path, **files), tmp_path)


def test_a_missing_mark_or_file_is_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="is not complete.*notebooks.explore.record"):
        build.read_page(tmp_path)
    with pytest.raises(ValueError, match="write them apart"):
        build.closed("const x = '</script>';", "x")
    assert "<" not in build.as_json({"a": "</script><!--"})
