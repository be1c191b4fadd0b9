"""The page that a student gets back, and the same as text for Gradescope."""

import html

from lab15_run import counted
from tests.labfile import TASKS

from ..grading.points import CAP
from . import overrides

MOST = sum(task.points for task in TASKS.values())
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 56rem; margin: 2rem auto; padding: 0 1rem;
  color: #000; background: #fff; }
main { overflow-wrap: anywhere; }
th { overflow-wrap: normal; }
table { border-collapse: collapse; }
th, td { border: 1px solid #767676; padding: .3rem .7rem; text-align: left; }
td.points { text-align: right; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 4px solid #0072B2;
  margin-left: 0; padding-left: 1rem; font-size: 13px; }
section { break-inside: avoid-page; }
@media (max-width: 30rem) { body { margin: 1rem auto; padding: 0 .7rem; }
  table { font-size: 14px; } th, td { padding: .3rem; } ul { padding-left: 1.2rem; } }
@media print { body { margin: 0; max-width: none; font-size: 11pt; } }
"""


def text(number, task):
    """Return a student's feedback on a task as text."""
    told = [(f"{heading}:\n" if heading else "", lines) for heading, lines in parts(number, task)]
    return "\n\n".join(heading + "\n".join(lines) for heading, lines in told)


def parts(number, task):
    """Return pairs (heading, lines) about a task; a heading of "" is a plain paragraph."""
    by_hand = [f"Points by hand: {overrides.words(entry)}." for entry in task.get("by_hand", [])]
    return [("", [line]) for line in by_hand] + _of_tests(number, task)


def _of_tests(number, task):
    passed = [name for name, ok in task["tests"].items() if ok]
    lost = [name for name, ok in task["tests"].items() if not ok]
    if not lost:
        return [("", [f"All {len(passed)} hidden tests passed."])]
    found = []
    if task["state"] == "written":
        found.append(("", [f"{len(passed)} of {len(task['tests'])} hidden tests passed."]))
        if lines := _shares(number, task):
            found.append(("Points by hidden test", lines))
        if task["hints"]:
            found.append(("Not passed, with a hint each", [f"- {hint}" for hint in task["hints"]]))
    if task["messages"]:
        found.append(("What happened", [f"- {message}" for message in task["messages"]]))
    if task["public"]:
        found.append(("The public tests say", task["public"].split("\n")))
    section = TASKS[number].section
    found.append(("", [
        f"Read: chapter.md section {section}. Run: python -m pytest -q -k task{number}"
    ]))
    return found


def _shares(number, task):
    """Return a line per hidden test with its points, and one with their sum."""
    lines, given = [], task.get("given") or {}
    for name, (points, share) in given.items():
        passed = task["tests"].get(name)
        word = "passed" if passed else "not passed"
        if not share:
            lines.append(f"- {name}: {word} (a test of form: no points of its own)")
        elif points and not passed:
            lines.append(f"- {name}: {points:g} of {share:g}, passed only {task['simple']}")
        else:
            lines.append(f"- {name}: {points:g} of {share:g}, {word}")
    if not given:
        return []
    total = round(sum(points for points, _ in given.values()), 2)
    most = CAP * TASKS[number].points
    form = not all(task["tests"].get(name) for name, (_, share) in given.items() if not share)
    cut = f", but {most:g} at most, since a test of form did not pass" * (form and total > most)
    return [*lines, f"- together: {total:g} of {TASKS[number].points:g}{cut}"]


def page(document):
    """Return a student's page as HTML: one file, no script, nothing from elsewhere."""
    extra = document["extra_data"]
    rows, sections = [], []
    for test in document["tests"]:
        number, more = int(test["number"]), test["extra_data"]
        name, score = html.escape(TASKS[number].name), f"{test['score']:g}"
        good, of = sum(more["hidden"].values()), len(more["hidden"])
        rows.append(
            f'<tr><th scope="row"><a href="#task{number}">Task {number}, {name}</a></th>'
            f'<td class="points">{score}</td><td class="points">{test["max_score"]:g}</td>'
            f"<td>{good} of {of}</td></tr>"
        )
        body = "".join(_part(*part) for part in parts(number, more | {"tests": more["hidden"]}))
        sections.append(
            f'<section id="task{number}"><h2>Task {number}, <code>{name}</code>: '
            f"{score} of {test['max_score']:g} points</h2>{body}</section>"
        )
    notes = "".join(f"<li>{html.escape(str(note))}</li>" for note in extra["notes"])
    notes = f"<h2>About the file</h2><ul>{notes}</ul>" if notes else ""
    notes = _sum(document) + notes
    student = html.escape(extra["student"])
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Lab 15: {student}, {document["score"]:g} of {MOST} points</title>
<style>{STYLE}</style></head>
<body><main><h1>Lab 15: {document["score"]:g} of {MOST} points</h1>
<p>Student: {student}{_when(extra)}</p>
<table><caption>Points by task</caption><thead><tr><th scope="col">Task</th>
<th scope="col">Points</th><th scope="col">of</th><th scope="col">Hidden tests passed</th></tr>
</thead><tbody>{"".join(rows)}</tbody></table>
{notes}{"".join(sections)}
<p>Lab version {html.escape(extra["lab_version"])}{_version(extra)}. Each hidden test gives its
own points; if one of form (types, shapes, arguments left alone) does not pass, a task gives
{CAP:.0%} of its points at most. What the public tests say gives no points; it is there to help.</p>
</main></body></html>
"""


def _sum(document):
    """Explain the total, unless it is just the sum of the tests' points."""
    extra = document["extra_data"]
    by_hand, why = extra.get("by_hand", []), extra.get("why_late")
    if not by_hand and not why:
        return ""
    lines = [f"The hidden tests gave {counted(extra['computed'], 'point')}."]
    lines += [f"By hand: {overrides.words(e)}." for e in by_hand if e["task"] != "total"]
    lines += [f"{why[0].upper()}{why[1:]}."] if why else []
    lines += [f"By hand: {overrides.words(e)}." for e in by_hand if e["task"] == "total"]
    items = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    return f"<h2>How the total came about</h2><ul>{items}</ul>"


def _part(heading, lines):
    heading = f"<h3>{html.escape(heading)}</h3>" if heading else ""
    if heading and all(line.startswith("- ") for line in lines):
        items = "".join(f"<li>{html.escape(line[2:])}</li>" for line in lines)
        return f"{heading}<ul>{items}</ul>"
    body = html.escape("\n".join(lines))
    return f"{heading}<pre>{body}</pre>" if heading else f"<p>{body}</p>"


def _when(extra):
    late = {None: "", False: "", True: ", late"}.get(extra["late"], f", {extra['late']}")
    when = f"; handed in {extra['submitted']}" if extra["submitted"] else ""
    return html.escape(when + late)


def _version(extra):
    theirs = extra["file_lab_version"]
    return html.escape(f", your file is of version {theirs}" if theirs else "")
