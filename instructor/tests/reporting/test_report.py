"""The class report: figures, names left out, untrusted text, shards, similar files."""

import ast
import csv
import json
import os
import re
from html.parser import HTMLParser

import pytest

from instructor import report, signatures
from instructor.grading import judging
from instructor.reporting import anonymous, copies, doubt, figures, load, similar
from instructor.variants.catalog import solution
from tests.labfile import TASKS
from tests.messages.explain import MISTAKES

from . import made_up
from .made_up import entry, write

STD = "task2.sample_std"


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):  # noqa: D102
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):  # noqa: D102
        self.text += data


def five(**mistakes):
    """Return the five tests of a result; an argument task2 is the mistake in Task 2."""
    return [entry(n, mistakes.get(f"task{n}", "")) for n in TASKS]


def made(tmp_path, *folders, args=()):
    """Run the command; return (exit code, text of the page)."""
    out = tmp_path / "report.html"
    code = report.main([*map(str, folders), "--out", str(out), *args])
    return code, out.read_text(encoding="utf-8") if out.exists() else ""


@pytest.fixture
def small(tmp_path):
    """A class of seven: three with the sample std, one with k1, one broken, one absent."""
    folder = tmp_path / "results"
    for name in ("ada lovelace", "ben", "cy"):
        write(folder, name, five(task2=STD))
    write(folder, "dora", five(task3="task3.k1"))
    write(folder, "emil", five())
    write(folder, "fay", [*five()[:4], entry(5, state="broken")], late="2 days")
    write(folder, "gus", [entry(n, state="missing") for n in TASKS], None)
    return folder


# ---------------------------------------------------------------- figures


def test_first_line_says_what_to_teach_again(small, tmp_path, capsys):
    code, page = made(tmp_path, small)
    first = re.search(r"<h1>(.*?)</h1>", page)[1]
    assert code == 0 and first.startswith("Teach section 3 again: 3 of 6 in Task 2")
    assert "teach section 3 again: 3 of 6" in capsys.readouterr().out
    names = re.findall(r'<section class="mistake" aria-label="([^"]+)"', page)
    assert names == [STD, "task3.k1"]
    assert "sample std (divide by G-1" in Page(page).text


def test_points_and_hidden_tests_are_counted(small):
    found = load.load([small])
    label = {r.student: r.student for r in found.records}
    context = figures.everything(found, label)
    assert (context["students"], context["files"]) == (7, 6)
    assert [b["count"] for b in context["totals"]["bars"]][8:] == [4, 1, 1]
    task2 = context["tasks"][1]
    assert [b["count"] for b in task2["bars"]] == [3, 0, 0, 0, 0, 3]
    assert task2["spread"]["mean"] == "1" and task2["states"] == {"written": 6}
    tests = {(t["task"], t["name"]): t for t in context["hidden"]}
    assert tests[2, "impossible"]["word"] == "nobody passes"
    assert tests[2, "shape"]["word"] == "everybody passes"
    assert (tests[2, "values"]["passed"], tests[5, "values"]["asked"]) == (3, 5)


def test_states_name_who_is_absent_broken_or_late(small):
    found = load.load([small])
    rows = figures.states(found, {r.student: r.student for r in found.records})
    who = {row["name"].split(" (")[0]: row["who"] for row in rows}
    assert who["nothing handed in"] == ["gus"] and who["late"] == ["fay"]
    assert who["broken file"] == ["fay"]


def test_a_task_that_few_wrote_is_taught_before_a_rare_mistake(tmp_path):
    for i in range(4):
        tests = five(task2=STD) if i == 0 else five()
        write(tmp_path / "r", f"s{i}", [*tests[:4], entry(5, state="unwritten")])
    _, page = made(tmp_path, tmp_path / "r")
    assert "<h1>Teach section 6 again: 4 of 4 in Task 5" in page


def test_class_without_files_or_mistakes(tmp_path):
    write(tmp_path / "a", "ada", [entry(n, state="missing") for n in TASKS], None)
    assert "no file was handed in" in made(tmp_path, tmp_path / "a")[1]
    perfect = [entry(n) for n in TASKS]
    write(tmp_path / "b", "ben", perfect)
    assert "nobody lost a point" in made(tmp_path, tmp_path / "b")[1]


# ---------------------------------------------------------------- names


def test_names_only_when_asked_for(small, tmp_path):
    names = [p.name for p in small.iterdir()]
    page = made(tmp_path, small)[1]
    assert not [n for n in names if re.search(rf"\b{n}\b", page)] and "S001" in page
    page = made(tmp_path, small, args=["--names"])[1]
    assert all(n in page for n in ("fay", "gus")) and "S001" not in page


def test_labels_are_stable_and_tell_nothing_of_the_order(tmp_path):
    names = [f"s{i:02}" for i in range(40)]
    for name in names:
        write(tmp_path, name, five())
    records = load.load([tmp_path]).records
    labels = anonymous.labels(records)
    assert labels == anonymous.labels(records[::-1])
    assert sorted(names, key=labels.get) != sorted(names) and len(set(labels.values())) == 40


def test_code_is_shown_without_comments_texts_and_own_names():
    source = '''
def k3_kl(logp, ref_logp):
    """By Ada Lovelace, 12345678."""
    # ada@example.org
    lovelace_d = ref_logp - logp  # mine
    "a lone text by ada"
    print("ada", f"{lovelace_d} ada", 20261234)
    return (torch.exp(lovelace_d)
            - lovelace_d - 1)
broken = ((
'''
    shown = anonymous.code(source, 3, "Ada Lovelace")
    assert shown.splitlines() == [
        "def k3_kl(logp, ref_logp):", "    v1 = ref_logp - logp",
        '    print("...", "...", #)', "    return (torch.exp(v1)", "            - v1 - 1)",
    ]
    assert "v1" in anonymous.code("def k3_kl(mask, b): return mask + mark", 3, "mark")


def test_messages_keep_only_the_lab_s_words():
    shown = anonymous.message("ValueError: lovelace zyx expected 0.25, mask of 12345678", "x")
    assert shown == "ValueError: ___ ___ expected 0.25, mask of #"
    assert "___" in anonymous.message("groups of Median", "median")


@pytest.mark.parametrize("source", [
    "", "def k3_kl(", "def k3_kl(a):\n", "def k3_kl(a):\n\tx\n  y\n", "def k3_kl(a): return '''",
    "def k3_kl(a):\n    return " + "(" * 50_000, "def k3_kl(a):\n    " + "x = 1; " * 50_000,
    "def k3_kl(a):\n" + "    if a:\n" * 300, "def k3_kl(\0): pass", "def k3_kl(a):\n    \u202e = $",
])
def test_odd_source_does_no_harm(source):
    shown = anonymous.code(source, 3, "ada")
    assert len(shown.splitlines()) <= anonymous.MAX_LINES + 1 and shown.isascii()
    assert similar.parts(source).keys() == set(TASKS)


# ---------------------------------------------------------------- untrusted text


def test_everything_untrusted_is_escaped(tmp_path):
    evil = "</pre></title><script>alert(1)</script><img src=x onerror=alert(1)>"
    tests = [entry(n, "task2.<b>" if n == 2 else "", public=evil) for n in TASKS]
    tests[0]["extra_data"]["hidden"] = {evil: True}
    folder = write(tmp_path / "r", "x", tests, evil, notes=[evil], late=evil, file_lab_version=evil)
    data = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    data["extra_data"]["student"] = evil
    (folder / "results.json").write_text(json.dumps(data), encoding="utf-8")
    code, page = made(tmp_path, tmp_path / "r", args=["--names"])
    tags = {tag for tag, _ in Page(page).tags}
    assert code == 0 and not tags & {"script", "img", "iframe"} and "&lt;script&gt;" in page
    assert "task2.&lt;b" not in page and "does not know" in page  # an id that is none of ours
    assert not [a for _, attrs in Page(page).tags for a in attrs if a.startswith("on")]


@pytest.mark.parametrize("text", [
    "", "[]", "{}", "nul", "{" * 5000, '{"score": "10"}', '{"score": NaN, "tests": []}',
    '{"score": 1, "tests": [{"number": "9"}]}', '{"score": 1e999, "tests": null}', "\xff\xfe",
])
def test_broken_results_are_listed_not_fatal(text, tmp_path, capsys):
    write(tmp_path / "r", "ada", five(task2=STD))
    bad = tmp_path / "r" / "bea"
    bad.mkdir()
    (bad / "results.json").write_bytes(text.encode("latin-1"))
    code, page = made(tmp_path, tmp_path / "r")
    assert code == 1 and "1 results could not be read" in page and "bea" not in page
    assert "bea" in capsys.readouterr().out


def test_wrong_types_inside_are_no_result(tmp_path):
    for i, (place, value) in enumerate([
        ("score", True), ("score", -1), ("hidden", []), ("extra_data", 3), ("max_score", None),
    ]):
        tests = five()
        target = tests[0]["extra_data"] if place == "hidden" else tests[0]
        target[place] = value
        write(tmp_path, f"s{i}", tests)
    assert len(load.load([tmp_path]).broken) == 5


@pytest.mark.skipif(os.name == "nt", reason="links need a right of their own on Windows")
def test_links_and_huge_files_are_not_read(tmp_path):
    folder = write(tmp_path / "r", "ada", five())
    lab = folder / "lab15_grpo.py"
    secret = tmp_path / "secret.py"
    secret.write_text("def k3_kl(): pass", encoding="utf-8")
    lab.unlink()
    lab.symlink_to(secret)
    record = load.load([tmp_path / "r"]).records[0]
    assert load.lab_text(record) == ""
    lab.unlink()
    lab.write_bytes(b"#" * (load.LARGEST_LAB + 1))
    assert load.lab_text(record) == ""


# ---------------------------------------------------------------- shards


def test_shards_are_merged_and_one_result_of_a_student_counts(tmp_path):
    write(tmp_path / "r" / "shard-1", "ada", five(), submitted="2026-11-02 10:00")
    write(tmp_path / "r" / "shard-2", "ada", five(task1="task1.greedy"), submitted="2026-11-01")
    write(tmp_path / "r" / "shard-1", "ben", five())
    write(tmp_path / "r" / "shard-2", "ben", five(task1="task1.greedy"))
    found = load.load([tmp_path / "r"])
    scores = {r.student: r.score for r in found.records}
    assert scores == {"ada": 10, "ben": 8}  # handed in later; read later
    assert found.repeated == ["ada", "ben"]
    back = load.load([tmp_path / "r" / "shard-2", tmp_path / "r" / "shard-1"])
    assert {r.student: r.score for r in back.records} == {"ada": 10, "ben": 10}


def test_merged_table_of_points(tmp_path):
    write(tmp_path / "a", "ada", five(task2=STD), notes=["=1+1", "x"])
    write(tmp_path / "b", "ben", five())
    out = tmp_path / "all.csv"
    made(tmp_path, tmp_path / "a", tmp_path / "b", args=["--scores", str(out)])
    rows = list(csv.reader(out.read_text(encoding="utf-8").splitlines()))
    assert rows[0][:7] == ["student", *(f"task{n}" for n in TASKS), "total"]
    assert rows[1][:7] == ["ada", "2", "0", "1", "3", "2", "8"] and rows[1][9] == "'=1+1; x"
    assert rows[2][6] == "10"


def test_other_hidden_tests_in_one_class_are_pointed_out(tmp_path):
    write(tmp_path / "r", "ada", five())
    write(tmp_path / "r", "ben", five(), hidden_hash={"1": "old"})
    assert "different versions of the hidden tests" in made(tmp_path, tmp_path / "r")[1]


def test_warns_where_there_are_no_results(tmp_path, capsys):
    assert report.main([str(tmp_path)]) == 2 and "--out" in capsys.readouterr().out
    assert report.main([str(tmp_path / "no")]) == 2 and "there is no folder" in (
        capsys.readouterr().out)


# ---------------------------------------------------------------- the page, similar files


def test_page_stands_alone_and_can_be_read_aloud(small, tmp_path):
    page = Page(made(tmp_path, small)[1])
    tags = page.tags
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in tags}
    links = [a.get("href") or a.get("src") for _, a in tags if "href" in a or "src" in a]
    assert all(link.startswith(("#", "data:,")) for link in links)
    ids = {a["id"] for _, a in tags if "id" in a}
    assert {link[1:] for link in links if link[0] == "#"} <= ids
    charts = [a for tag, a in tags if tag == "svg" and a.get("role") == "img"]
    assert len(charts) == 7 and all(c["aria-labelledby"] in ids for c in charts)
    assert all(a.get("aria-hidden") or a.get("role") == "img" for t, a in tags if t == "svg")
    assert all(a.get("scope") for tag, a in tags if tag == "th")
    assert ("html", {"lang": "en"}) in tags and "Points in Task 2: none: 3;" in page.text


def test_twins_are_similar_also_with_other_names(tmp_path):
    pytest.importorskip("copydetect", reason="pip install -r instructor/requirements.txt")
    names = made_up.whole_class(tmp_path, 40, seed=3)
    draw = [n for n in names if (tmp_path / n / "lab15_grpo.py").exists()]
    texts = [(tmp_path / n / "lab15_grpo.py").read_text(encoding="utf-8") for n in draw]
    k = next(i for i, text in enumerate(texts) if "NotImplementedError" not in text)
    source = texts[k]
    odd = source.replace("# TODO", "#")
    for word in ("groups", "rho", "out", "adv"):
        odd = re.sub(rf"\b{word}\b(?!\()", f"{word}_x", odd)
    found = similar.find([*texts, source, odd])
    pairs = {(p.one, p.other) for p in found.pairs}
    n = len(texts)
    assert {(k, n), (n, n + 1), (k, n + 1)} & pairs and found.limit > 0
    assert all({p.one, p.other} & {k, n, n + 1} for p in found.pairs)


def test_a_class_that_writes_all_the_same_is_not_similar():
    pytest.importorskip("copydetect", reason="pip install -r instructor/requirements.txt")
    assert similar.find([solution()] * 25).pairs == []
    assert similar.find([""] * 30).files == 0
    few = similar.find([solution()] * (similar.FEWEST - 1))
    assert few.pairs == [] and few.files == similar.FEWEST - 1


# ---------------------------------------------------------------- the same file


def renamed(text):
    """Return a file with other names for its variables, without comments, in another layout."""
    tree = ast.parse(text)
    for function in tree.body:
        if getattr(function, "name", "") in {task.name for task in TASKS.values()}:
            names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
            own = {node.id for node in names if isinstance(node.ctx, ast.Store)}
            own -= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
            for node in names:
                node.id = f"my_{node.id}" if node.id in own else node.id
    return re.sub(r"(?m)^( +)return", r"\1# mine\n\n\1return", ast.unparse(tree)) + "\n"


@pytest.fixture(scope="module")
def thirty(tmp_path_factory):
    """Give the texts of a class of thirty different files."""
    folder = tmp_path_factory.mktemp("class")
    names = made_up.whole_class(folder, 60, seed=5)
    paths = [folder / name / "lab15_grpo.py" for name in names]
    texts = [p.read_text(encoding="utf-8") for p in paths if p.exists()]
    doubles = {i for g in copies.find(texts).groups for i in g.members[1:]}
    return [t for i, t in enumerate(texts) if i not in doubles][:30]


@pytest.mark.parametrize("n", [2, 3, 18, 60])
def test_the_same_file_is_listed_in_every_class(thirty, n):
    for others in ([], thirty[1:], [thirty[0][:400]] * 3):
        found = copies.find([*others, *[thirty[0]] * n])
        mine = [g for g in found.groups if len(others) in g.members]
        assert [len(g.members) for g in mine] == [n] and mine[0].identical


def test_names_comments_and_layout_make_no_difference(thirty):
    for text in [solution(), *thirty[:5]]:
        other = renamed(text)
        assert other != text
        found = copies.find([text, other, text]).groups
        assert [g.members for g in found] == [[0, 1, 2]] and found[0].exact == [[0, 2]]
    assert copies.find(thirty).groups == []


def test_another_line_is_a_difference():
    for old, new in (("- d - 1", "- d"), (".clamp(", ".clip("), ("dim=1", "dim=0")):
        changed = solution().replace(old, new)
        assert changed == solution() or copies.find([solution(), changed]).groups == []


def test_files_with_nothing_or_little_in_them_are_not_accused():
    stub = (report.TEMPLATES.parents[1] / "lab15_grpo.py").read_text(encoding="utf-8")
    assert copies.find([stub] * 9) == copies.Copies([], [])
    two_lines = "    d = ref_logp - logp\n    return torch.exp(d) - d - 1\n"
    first = stub.replace('    raise NotImplementedError("Task 3: k3_kl")\n', two_lines)
    assert first != stub
    other = first.replace(two_lines, re.sub(r"\bd\b", "x", two_lines))
    found = copies.find([first, other, stub])
    assert found.groups == [] and [g.members for g in found.small] == [[0, 1]]
    listed = copies.find([first, first]).groups
    assert [g.members for g in listed] == [[0, 1]] and not listed[0].room


@pytest.mark.parametrize("body", ["(" * 9000, "-" * 9000 + "a", "lambda: " * 999, "a." * 9000])
def test_invalid_python_is_compared_as_text(body):
    text = f"def k3_kl(a, b):\n    return {body}\n"
    found = copies.find([text, text, text.replace("b)", "c)")]).groups
    assert [g.exact for g in found] == [[[0, 1]]]


def test_the_page_shows_one_group_of_sixty(tmp_path):
    for i in range(60):
        write(tmp_path / "r", f"s{i:02}", five())
    write(tmp_path / "r", "odd", five(), lab=solution().replace("- d - 1", "- d"))
    code, page = made(tmp_path, tmp_path / "r", args=["--names"])
    row = re.search(r"<tr><td class=\"n\">60</td><td>letter by letter</td>(.*?)</tr>", page)[1]
    assert code == 0 and all(f"s{i:02}" in row for i in range(60)) and "odd" not in row


def test_without_copydetect_the_same_file_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(similar, "available", lambda: False)
    for name in ("ada", "ben"):
        write(tmp_path / "r", name, five())
    page = made(tmp_path, tmp_path / "r")[1]
    assert "letter by letter" in page and "copydetect is not installed" in page


# ---------------------------------------------------------------- what counts


def test_the_first_line_counts_students_not_mistakes(tmp_path):
    known = [name for name in MISTAKES if name.startswith("task4.")][:4]
    for i in range(20):
        tests = five(task2=STD) if i < 3 else five()
        if i >= 12:
            tests[3] = entry(4, known[i % len(known)])
        write(tmp_path / "r", f"s{i:02}", tests)
    page = made(tmp_path, tmp_path / "r")[1]
    assert "<h1>Teach section 5 again: 8 of 20 in Task 4" in page
    assert all(name in page.split("<nav")[0] for name in known)


def test_invented_names_of_mistakes_are_not_counted(tmp_path):
    for i in range(6):
        tests = five(task2=STD) if i < 2 else five()
        mine = tests[2]["extra_data"]["mistakes"]
        mine += ["task3.forged", "task2.sample_std", "task3.k1", "x" * 99]  # with all points
        write(tmp_path / "r", f"s{i}", tests)
    page = made(tmp_path, tmp_path / "r")[1]
    assert "Teach section 3 again: 2 of 6 in Task 2" in page and "forged" not in page
    assert "Not counted: 24 names of mistakes" in page and "task3.k1" not in page


# ---------------------------------------------------------------- by hand, and gone


def lowered(number, after, reason="copied"):
    """Return a test with all points of which an instructor has taken some."""
    test = entry(number)
    before, test["score"] = test["score"], float(after)
    line = {"task": number, "before": before, "after": float(after), "reason": reason, "line": 2}
    test["extra_data"] |= {"computed": before, "by_hand": [line]}
    return test, line


def test_points_by_hand_are_no_mistakes_and_named_apart(tmp_path):
    test, line = lowered(3, 0, "see the mail of Mr Zyx")
    tests = [test if t["number"] == "3" else t for t in five()]
    total = {"task": "total", "before": 9.0, "after": 9.5, "reason": "found a slip", "line": 3}
    write(tmp_path / "r", "ada", tests, by_hand=[line, total], penalty=0.0)
    write(tmp_path / "r", "ben", five(), penalty=2.0, late=True)
    page = made(tmp_path, tmp_path / "r")[1]
    assert "nobody lost a point" in page and "Zyx" not in page
    assert "2 changes by hand for 1 student (1 up, 1 down)" in page
    assert "2 points in all taken off 1 student for" in page
    found = load.load([tmp_path / "r"])
    context = figures.everything(found, {"ada": "ada", "ben": "ben"})
    assert context["totals"]["bars"][-1]["count"] == 2  # both have 10 by the tests
    assert [(r["total"], r["final"]) for r in context["rows"]] == [("10", "9"), ("10", "10")]
    assert "Zyx" in made(tmp_path, tmp_path / "r", args=["--names"])[1]


def test_who_has_left_is_not_counted_and_who_has_no_result_is_named(small, tmp_path, capsys):
    text = json.dumps({"students": ["ada lovelace", "ben", "dora", "zoe"]})
    (small / load.CLASS).write_text(text, encoding="utf-8")
    page = made(tmp_path, small, args=["--names"])[1]
    assert "2 of 3 in Task 2" in page and "3 students, 3 files graded" in page
    said = capsys.readouterr().out
    assert "in the class no more: 4: cy, emil, fay, gus" in said and "no result yet: 1: zoe" in said
    (small / load.CLASS).write_text("[3", encoding="utf-8")  # then everybody counts
    assert len(load.load([small]).records) == 7


def test_a_file_that_could_not_be_graded_was_handed_in(tmp_path):
    missing = [entry(n, state="missing") for n in TASKS]
    for name, why in (("ada", "nothing was handed in"), ("ben", "it is empty")):
        write(tmp_path, name, missing, None, notes=[f"nothing was graded: {why}"])
    rows = figures.states(load.load([tmp_path]), {"ada": "ada", "ben": "ben"})
    assert [row["who"] for row in rows[:2]] == [["ada"], ["ben"]]


# ---------------------------------------------------------------- which names are believed


def test_a_mistake_is_confirmed_by_the_hidden_tests_that_fail_with_it():
    for key, sets in doubt.signatures().items():
        task, name = key.split()
        for failed in sets:
            assert doubt.believed(int(task), [name], failed) == {name: True}
            assert doubt.believed(int(task), ["task9.none", "x"], failed) == {}
            assert doubt.believed(int(task), [name], ()) == {}  # nothing failed


def test_a_forger_adds_three_names_to_a_task_at_most_and_confirms_none_beside_the_real_one():
    for key, sets in doubt.signatures().items():
        task = int(key.split()[0])
        every = [k.split()[1] for k in doubt.signatures() if k.startswith(f"{task} ")]
        for failed in sets:
            got = doubt.believed(task, every, failed)
            assert len(got) <= doubt.MOST
            known = {n: doubt.signatures()[f"{task} {n}"] for n in got}
            assert all(frozenset.intersection(*s) <= failed for s in known.values())


def test_two_mistakes_confirm_each_other_only_if_both_are_needed(monkeypatch):
    table = {"4 task4.stat_top_min": [{"a"}], "4 task4.kl_sign": [{"b", "c"}],
             "4 task4.zeros": [{"a", "b", "c"}], "4 any.nan": [{"a", "b"}]}
    known = {k: tuple(map(frozenset, v)) for k, v in table.items()}
    monkeypatch.setattr(doubt, "signatures", lambda: known)
    both = doubt.believed(4, ["task4.stat_top_min", "task4.kl_sign"], "abc")
    assert both == {"task4.stat_top_min": True, "task4.kl_sign": True}
    more = doubt.believed(4, ["task4.zeros", "any.nan"], "abc")
    assert more == {"task4.zeros": True, "any.nan": False}
    assert doubt.believed(4, ["task4.zeros", "task4.stat_top_min"], "ab") == {
        "task4.stat_top_min": False}  # zeros would have failed c as well
    assert doubt.believed(4, ["task4.zeros"], ["another version's test"]) == {"task4.zeros": False}


def test_the_page_shows_the_share_that_is_confirmed(tmp_path):
    (failed, *_) = doubt.signatures()[f"2 {STD}"]
    for i in range(4):
        tests = five(task2=STD)
        more = tests[1]["extra_data"]
        more["hidden"] = dict.fromkeys(failed, False)
        if i == 3:  # forged: not what failed
            more["mistakes"] += [n for n in MISTAKES if n.startswith("task2.")]
        write(tmp_path / "r", f"s{i}", tests)
    page = Page(made(tmp_path, tmp_path / "r")[1]).text
    assert re.search(r"4 of 4 \s*Task 2, group_advantages: task2.sample_std", page)
    assert "Confirmed by the hidden tests: 4 of 4" in page
    assert re.search(r"\d of [456] \(\d+%\) are confirmed", page) and "Not counted: " in page


def test_the_signatures_are_those_of_this_lab():
    known = doubt.signatures()
    chaffs = [v for v in made_up.chaffs() if v.mistake in MISTAKES]
    assert {f"{v.task} {v.mistake}" for v in chaffs} <= set(known)
    course = judging.Course(signatures.SEEDS[0])
    tests = {n: {t.name for t in course.modules[n].TESTS.values()} for n in TASKS}
    for key, sets in known.items():
        task, name = key.split()
        assert name in MISTAKES and all(s and s <= tests[int(task)] for s in sets)
    some = chaffs if "LAB15_SLOW" in os.environ else chaffs[::97]
    for key, sets in signatures.made(some, signatures.SEEDS[:1]).items():
        assert set(map(frozenset, sets)) <= set(known[key]), f"{key}: run {signatures.__name__}"
