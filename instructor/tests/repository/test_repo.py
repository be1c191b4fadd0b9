"""What must hold in the repository itself: the contract, the imports, words and links.

Nothing here imports torch or runs the lab; the files are read as text and as syntax trees.
"""

import ast
import inspect
import re
import tokenize

import pytest

from instructor.tests.repo_files import TOP, files, python_files, text, tree

STUDENT, SOLUTION = "lab15_grpo.py", "solutions/lab15_grpo.py"
TASKS = ["sample_group", "group_advantages", "k3_kl", "grpo_loss", "grpo_step"]
CHAPTER_WORDS = r"\b(groups?|advantages?|ratios?|KL|GRPO)\b"  # tinylm.py knows nothing of these
MAX_TASK_BODY = 25  # lines that a student would write


def functions(name):
    """Return the functions of a file at any depth, as syntax nodes."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [n for n in ast.walk(tree(name)) if isinstance(n, kinds)]


def body_span(function):
    """Return the (first, last) line number of a function without its docstring."""
    first = function.body[0]
    if ast.get_docstring(function) is None:
        return first.lineno, function.end_lineno
    return first.end_lineno + 1, function.end_lineno


def imports(nodes):
    """Return the dotted names that these syntax nodes import."""
    names = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def rooms(names):
    """Return the first parts of dotted names."""
    return {name.split(".")[0] for name in names}


def collapsed(s):
    """Return the text with every run of white space made one space."""
    return " ".join(s.split())


def assert_same_text(ours, theirs, what):
    """Fail with the first words that differ."""
    a, b = ours.split(" "), theirs.split(" ")
    pairs = zip(a, b)
    at = next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))
    shown = [" ".join(words[max(0, at - 8) : at + 12]) for words in (a, b)]
    message = f"{what}\nours:   ... {shown[0]} ...\ntheirs: ... {shown[1]} ..."
    if ours != theirs:
        pytest.fail(message, pytrace=False)


# ---------------------------------------------------------------- the contract


def outside_the_tasks(name):
    """Return a lab file's text with the five bodies cut out."""
    lines = text(name).splitlines(keepends=True)
    found = {f.name: f for f in tree(name).body if isinstance(f, ast.FunctionDef)}
    for task in reversed(TASKS):
        first, last = body_span(found[task])
        lines[first - 1 : last] = [f"<body of {task}>\n"]
    return "".join(lines)


def test_solution_is_the_student_file_outside_the_five_bodies():
    ours, theirs = outside_the_tasks(STUDENT), outside_the_tasks(SOLUTION)
    for a, b in zip(ours.splitlines(), theirs.splitlines()):
        assert a == b, "the solution differs from the student's file outside the five bodies"
    assert ours == theirs


def test_solution_bodies_are_short():
    for f in functions(SOLUTION):
        if f.name in TASKS:
            first, last = body_span(f)
            size = sum(bool(line.strip()) for line in text(SOLUTION).splitlines()[first - 1 : last])
            assert size <= MAX_TASK_BODY, f"{f.name}: {size} lines, at most {MAX_TASK_BODY}"


def test_lab_file_is_the_contract_plus_the_listed_additions():
    from instructor.tests.repository.additions import ADDITIONS

    lab = collapsed(text(STUDENT))
    for ours, theirs in ADDITIONS:
        ours = collapsed(ours)
        assert lab.count(ours) == 1, f"{lab.count(ours)} times in {STUDENT}, not once: {ours}"
        lab = collapsed(lab.replace(ours, f" {theirs} "))
    contract = collapsed(text("instructor/tests/repository/contract.txt"))
    assert_same_text(lab, contract, f"{STUDENT} differs from the contract")


def test_todo_stands_five_times_in_the_tasks_and_nowhere_else():
    found = []
    for name in python_files():
        with tokenize.open(TOP / name) as f:
            for token in tokenize.generate_tokens(f.readline):
                if token.type == tokenize.COMMENT and "TODO" in token.string:
                    found.append((name, token.string[:16]))
    assert found == [(STUDENT, f"# TODO (Task {n}):"[:16]) for n in range(1, 6)]


# ---------------------------------------------------------------- imports


def test_tinylm_knows_nothing_above_it():
    known = rooms(imports(ast.walk(tree("tinylm.py"))))
    upper = {"lab15_grpo", "solutions", "tests", "beyond", "instructor"}
    assert not known & upper


def test_tinylm_does_not_use_the_words_of_the_chapter():
    lines = enumerate(text("tinylm.py").splitlines(), 1)
    found = [f"line {i}: {s.strip()}" for i, s in lines if re.search(CHAPTER_WORDS, s, re.I)]
    assert not found


@pytest.mark.parametrize("name", [STUDENT, SOLUTION])
def test_lab_file_imports_little(name):
    import sys

    found = rooms(imports(ast.walk(tree(name))))
    allowed = set(sys.stdlib_module_names) | {"torch", "tinylm", "lab15_run"}
    assert found <= allowed, f"{name} imports {found - allowed}"


def test_nothing_but_instructor_imports_the_solutions():
    """import-linter checks the other arrows: see pyproject.toml."""
    for name in python_files():
        if name.startswith(("tests/", "beyond/", "notebooks/")):
            assert "solutions" not in rooms(imports(ast.walk(tree(name)))), name


# ---------------------------------------------------------------- words, encodings


def test_python_files_are_ascii():
    found = [n for n in python_files() if not text(n).isascii()]
    assert not found, f"a terminal may not be able to print what is in {found}"


def opens_text_without_encoding(call):
    """Return whether a call opens a file as text and leaves the encoding to the system."""
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    keywords = {k.arg: k.value for k in call.keywords}
    if name in ("read_text", "write_text"):
        return "encoding" not in keywords and len(call.args) < (1 if name == "read_text" else 2)
    if name not in ("open", "fdopen", "NamedTemporaryFile") or "encoding" in keywords:
        return False
    owner = getattr(getattr(call.func, "value", None), "id", "")
    # The others open no file but a sandbox, a page in a browser, or an entry of an archive.
    if owner in ("tokenize", "webbrowser", "maker", "sandbox", "self", "file", "w"):
        return False
    if owner == "os" and name == "open":
        return False
    modes = [a for a in [*call.args, keywords.get("mode")] if isinstance(a, ast.Constant)]
    binary = any(re.fullmatch(r"[rwax+]*b[rwax+]*", str(a.value)) for a in modes)
    return not binary and name != "NamedTemporaryFile"


@pytest.mark.parametrize(
    "name",
    [n for n in python_files() if n != "tests/install.py" and "/attacks/" not in n],
)
def test_text_files_are_opened_with_an_encoding(name):
    calls = [n for n in ast.walk(tree(name)) if isinstance(n, ast.Call)]
    lines = [call.lineno for call in calls if opens_text_without_encoding(call)]
    assert not lines, f"{name}: no encoding= in lines {lines}"


def documented_arguments(node):
    """Return the names under "Args:" of a docstring; None without that section."""
    doc = inspect.cleandoc(ast.get_docstring(node) or "")
    section = re.search(r"^Args:\n((?:[ ]+.*\n?|\n)+)", doc, re.M)
    rows = section and re.findall(r"^    ([\w*][\w*, ]*):", section[1], re.M)  # one or several
    return rows and [name.strip("* ") for row in rows for name in row.split(",")]


def signatures(name):
    """Yield (node with the docstring, parameters, catch-alls) of a file's functions.

    A class documents the parameters of its __init__.
    """
    in_classes = {}
    for c in ast.walk(tree(name)):
        if isinstance(c, ast.ClassDef):
            in_classes |= {f: c for f in c.body}
    for f in functions(name):
        a = f.args
        args = [x.arg for x in [*a.posonlyargs, *a.args]]
        if f in in_classes and args[:1] in (["self"], ["cls"]):
            args = args[1:]
        args += [x.arg for x in a.kwonlyargs]
        more = [x.arg for x in (a.vararg, a.kwarg) if x]
        yield f, args, more
        if f.name == "__init__":
            yield in_classes[f], args, more


def test_documented_arguments_are_the_signature():
    wrong = []
    for name in python_files():
        if "/attacks/" not in name and "/wheats/" not in name:
            for node, args, more in signatures(name):
                documented = documented_arguments(node)
                if documented and not {*args} <= {*documented} <= {*args, *more}:
                    wrong.append(f"{name}: {node.name}")
    assert not wrong


# ---------------------------------------------------------------- documents


def anchors(name):
    """Return the places in a Markdown file that a link can point to."""
    plain = re.sub(r"^(```|~~~).*?^\1", "", text(name), flags=re.M | re.S)
    titles = re.findall(r"^#+ +(.+?)\s*$", plain, re.M)
    slugs = [re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles]
    return {*slugs, *re.findall(r"<a +(?:id|name)=[\"']([^\"']+)", plain)}


@pytest.mark.parametrize("name", sorted({n for n in files() if n.endswith(".md")} | {"README.md"}))
def test_relative_links_lead_somewhere(name):
    wrong = []
    pattern = r"\]\(([^)\s]+)\)|<(?:img|a)\b[^>]*?(?:src|href)=[\"']([^\"']+)"
    for target in (a or b for a, b in re.findall(pattern, text(name))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        # The book's first page stands beside the chapter when the book is built.
        folder = TOP if name == "notebooks/book/index.md" else (TOP / name).parent
        place = (folder / path).resolve() if path else TOP / name
        if not place.exists():
            wrong.append(target)
        elif anchor and place.suffix == ".md":
            known = anchors(place.relative_to(TOP).as_posix())
            wrong += [target] if anchor not in known else []
    assert not wrong, f"{name}: dead links {wrong}"


def test_readme_names_every_room_and_no_other():
    readme = text("README.md")
    visible = {n.split("/")[0] for n in files()}
    visible = {n for n in visible if not n.startswith(".")} - {"README.md"}
    missing = [n for n in sorted(visible) if not re.search(rf"(?<![\w/]){re.escape(n)}\b", readme)]
    assert not missing, f"README.md does not mention {missing}"
    blocks = re.findall(r"^```.*?^```|(?:^ {4}\S.*\n)+", readme, re.M | re.S)
    named = re.findall(r"(?<![\w./])[\w/]+(?:\.(?:py|md|txt|toml|png)|/)(?=\s)", "\n".join(blocks))
    made_later = ("runs/", ".venv/", "wheels/")
    gone = [n for n in named if not n.startswith(made_later) and not (TOP / n).exists()]
    assert not gone, f"README.md names files that do not exist: {gone}"


TREES = ("tests/", "beyond/tests/", "instructor/tests/")


def imported_tests(code):
    """Return the tests that a text imports, anywhere in it and in the programs that it quotes."""
    names = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names += [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names += re.findall(r"\b(?:from|import) +([\w.]+)", node.value)
    return [part for name in names for part in name.split(".") if part.startswith("test_")]


def test_tests_never_import_tests():
    """What tests share stands in a conftest.py, or in a helper named for what it holds."""
    found = {name: imported_tests(text(name)) for name in python_files()
             if name.startswith(TREES) and name != "instructor/tests/repository/test_repo.py"}
    assert len(found) > 100 and all(any(n.startswith(tree) for n in found) for tree in TREES)
    wrong = {name: names for name, names in found.items() if names}
    assert not wrong, "\n".join(f"{name} imports {names}" for name, names in wrong.items())


@pytest.mark.parametrize("code, found", [
    ("from beyond.tests.hf.test_trainer import lines", ["test_trainer"]),
    ("from .test_trainer import lines", ["test_trainer"]),
    ("from . import test_trainer", ["test_trainer"]),
    ("from a import (\n    b,\n    test_trainer,\n)", ["test_trainer"]),
    ("import beyond.tests.hf.test_trainer as t", ["test_trainer"]),
    ("def f():\n    import test_trainer", ["test_trainer"]),
    ('"from beyond.tests.hf.test_trainer import lines"', ["test_trainer"]),
    ("from beyond.tests.short_runs import lines\nimport pytest\n\ndef test_a(): pass", []),
])
def test_an_import_of_a_test_is_seen(code, found):
    assert imported_tests(code) == found


def test_top_level_stays_small():
    known = """README.md CONTRIBUTING.md chapter.md lab15_grpo.py lab15_run.py tinylm.py
        requirements.txt Makefile pyproject.toml LICENSE CITATION.cff tests notebooks solutions
        beyond instructor""".split()
    visible = {n.split("/")[0] for n in files() if not n.startswith(".")}
    assert visible <= set(known)
