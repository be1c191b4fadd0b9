"""Points by hand, lateness, a roster, one student anew, and files for a course system."""

import csv
import datetime
import json

import pytest

from instructor import grade
from instructor.records import lateness, overrides, roster, tables
from instructor.submissions.exports import Ids
from instructor.submissions.intake import Submission

from . import invented_class as invented
from .command import run, table, totals

HEAD = "student,task,points,change,reason\n"


@pytest.fixture(autouse=True)
def one_course(course, monkeypatch):
    """Spare every run the making of the hidden tests."""
    monkeypatch.setattr(grade, "Course", lambda seed: course)


@pytest.fixture
def graded(tmp_path, fakes, capsys):
    """Return a function that grades a class of four: everybody gets 10."""
    files = {f"lab15_{who}_attempt_2026-11-{day}-12-00-00_lab15_grpo.py": invented.work(n)
             for n, (who, day) in enumerate((("ann", 28), ("ben", 29), ("cid", 30)))}
    files["lab15_dan_attempt_2026-11-29-12-00-00_report.pdf"] = "%PDF"
    invented.as_folder(tmp_path / "in", files)

    def grade(*flags):
        capsys.readouterr()
        code = run(tmp_path / "in", tmp_path / "out", *flags)
        return code, capsys.readouterr().out

    return grade


def by_hand(tmp_path, text):
    (tmp_path / "out").mkdir(exist_ok=True)
    (tmp_path / "out" / "overrides.csv").write_text(HEAD + text, encoding="utf-8")


def result(tmp_path, student):
    text = (tmp_path / "out" / student / "results.json").read_text(encoding="utf-8")
    return json.loads(text)


# ---------------------------------------------------------------- overrides


def test_points_by_hand_are_shown_everywhere_and_can_be_taken_back(graded, tmp_path):
    assert graded()[0] == 0 and totals(tmp_path / "out")["ann"] == "10"
    by_hand(tmp_path, "ann,3,0.5,,the formula was copied\nANN,total,,-1,<b>no\n")
    assert graded()[0] == 0
    row, found = table(tmp_path / "out")["ann"], result(tmp_path, "ann")
    assert (row["task3"], row["total"], row["computed"]) == ("0.5", "8.5", "10")
    assert "task 3 1 -> 0.5: the formula was copied" in row["override"]
    assert found["score"] == 8.5 and found["tests"][2]["score"] == 0.5
    assert found["tests"][2]["extra_data"]["computed"] == 1 and "by hand" in found["output"]
    page = (tmp_path / "out" / "ann" / "feedback.html").read_text(encoding="utf-8")
    assert "the formula was copied" in page and "<b>" not in page and "8.5 of 10" in page
    by_hand(tmp_path, "")
    graded()
    assert table(tmp_path / "out")["ann"]["total"] == "10" and "by_hand" not in json.dumps(
        result(tmp_path, "ann")["tests"])


WRONG = {
    "zoe,1,1,,why": 'no student "zoe"', "ann,6,1,,why": 'task "6"', "ann,1,3,,why": "out of range",
    "ann,1,-1,,why": "out of range", "ann,1,1,,": "a reason is missing", "ann,1,,,why": "either",
    "ann,1,1,1,why": "either", "ann,1,x,,why": "no number", "ann,1,nan,,why": "no number",
    "ann,total,11,,why": "0 to 10", "ann,,1,,why": 'task ""', ",1,1,,why": "no student",
    "ann,1,1,,why\nann,1,2,,again": "already", "ann,3,,+1,why": "leave the range",
    "ann,3,,-0,5,why": "more cells", "ann,3,0.5,,right, but cut off": "more cells",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_line_is_named_and_costs_nothing_else(line, graded, tmp_path):
    by_hand(tmp_path, f"{line}\nben,2,1.5,,a good one\n")
    code, said = graded()
    assert code == 0 and WRONG[line] in said and said.count("overrides.csv, line ") == 1
    rows = table(tmp_path / "out")
    assert rows["ben"]["task2"] == "1.5" and len(rows) == 4
    assert rows["ann"]["total"] == ("9" if "again" in line else "10")


@pytest.mark.parametrize("text", [b"", b"name,points\nann,1\n", b"PK\x03\x04xxxx"])
def test_an_invalid_table_of_points_stops_the_run_at_once(text, graded, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "overrides.csv").write_bytes(text)
    code, said = graded()
    assert code == 2 and "overrides.csv" in said and not (tmp_path / "out" / "scores.csv").exists()


def test_a_student_is_found_by_any_id():
    subs = [Submission("Lee, Ann (7)", None, ids=Ids("7", "s7", "annlee", "ann@example.edu")),
            Submission("'=x", None, ids=Ids("8"))]
    for text in ("Lee, Ann (7)", "7", "S7", "annlee", "ANN@example.edu", "Lee, Ann"):
        assert roster.find(text, subs) == subs[:1], text
    assert roster.find("=x", subs) == subs[1:] == roster.find("'=x", subs)
    assert roster.find("", subs) == roster.find("nn", subs) == []


def test_what_sets_points_comes_before_what_changes_them():
    change, fixed = ((None, 0.5), (1.0, None))
    lines = [overrides.Override("a", 2, *change, "r", 2)]
    lines.append(overrides.Override("a", 2, *fixed, "r", 3))
    assert overrides.apply(lines, 2, 0.0)[0] == 1.5


# ---------------------------------------------------------------- changed by hand


def rewrite(path, change, **form):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    change(rows)
    with open(path, "w", encoding=form.pop("encoding", "utf-8"), newline="") as file:
        csv.writer(file, **form).writerows(rows)


def test_a_score_changed_by_hand_is_named_and_kept(graded, tmp_path):
    graded()
    path = tmp_path / "out" / "scores.csv"
    rewrite(path, lambda rows: rows[1].__setitem__(6, "9"), delimiter=";", encoding="utf-8-sig")
    edited = path.read_bytes()
    code, said = graded()
    assert code == 0 and "ann: total 10 -> 9" in said and "ann,total,9,,REASON" in said
    assert (tmp_path / "out" / "scores-by-hand-1.csv").read_bytes() == edited
    assert totals(tmp_path / "out")["ann"] == "10"
    assert "by hand" not in graded()[1]


def test_a_table_saved_again_is_no_change(graded, tmp_path):
    graded()

    def spreadsheet(rows):
        for row in rows[1:]:
            row[1:7] = [f"{float(cell):.1f}".replace(".", ",") for cell in row[1:7]]

    rewrite(tmp_path / "out" / "scores.csv", spreadsheet, delimiter=";", encoding="utf-16")
    assert "by hand" not in graded()[1] and not list((tmp_path / "out").glob("scores-by-hand*"))


@pytest.mark.parametrize(
    ("change", "words"),
    [(lambda rows: rows.pop(1), "no row of ann"), (lambda rows: rows.append(["eve"]), "a new row"),
     (lambda rows: [r.append("x") for r in rows], "a new column, x"),
     (lambda rows: rows[1].__setitem__(9, "seen"), "note empty -> seen")],
)
def test_rows_columns_and_notes_by_hand_are_kept_too(change, words, graded, tmp_path):
    graded()
    rewrite(tmp_path / "out" / "scores.csv", change)
    assert words in graded()[1] and (tmp_path / "out" / "scores-by-hand-1.csv").exists()


def test_a_part_of_the_class_is_no_change_by_hand(graded, tmp_path):
    assert "by hand" not in graded("--student", "a*")[1] + graded("--student", "b*")[1]
    assert totals(tmp_path / "out") == {"ann": "10", "ben": "10", "cid": "", "dan": ""}
    assert table(tmp_path / "out")["cid"]["note"] == "NOT GRADED yet"


# ---------------------------------------------------------------- lateness


@pytest.mark.parametrize(
    ("text", "hours", "points", "off"),
    [("10% a day, at most 50%", 1, 8, 0.8), ("10% a day, at most 50%", 24.1, 8, 1.6),
     ("10% a day, at most 50%", 999, 8, 4), ("1 point per day", 25, 8, 2), ("1 pt/day", 999, 8, 8),
     ("5% an hour up to 2 points", 9, 8, 2), ("0.5 points per week", 1, 8, 0.5),
     ("100% a day", 1, 8, 8)],
)
def test_a_rule_takes_off_for_every_unit_begun(text, hours, points, off):
    assert lateness.rule(text).off(points, 3600 * hours) == off


@pytest.mark.parametrize("text", ["", "10", "10 a day", "ten% a day", "10% a month", "200% a day",
                                  "-1% a day", "10% a day, at most 500%"])
def test_another_rule_is_refused(text):
    with pytest.raises(ValueError, match="--late"):
        lateness.rule(text)


@pytest.mark.parametrize("text", ["2026-11-29 23:59 +0100", "2026-11-29 22:59:00 UTC",
                                  "2026-11-29T22:59:00Z", "2026-11-29 22:59:00.000000000 Z",
                                  "2026-11-29 14:59:00 -08:00"])
def test_the_times_of_all_systems_are_understood(text):
    wanted = datetime.datetime(2026, 11, 29, 22, 59, tzinfo=datetime.UTC)
    assert lateness.moment(text) == wanted


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01 00:00", "2026-11-29 25:00", "29.11.2026"])
def test_invalid_times_are_none(text):
    assert lateness.moment(text) is None


def test_late_work_costs_points_and_extra_days_help(graded, tmp_path):
    names = tmp_path / "roster.csv"
    names.write_text("Username,Extra days\nann,0\nben,0\ncid,1\neve,many\n", encoding="utf-8")
    flags = ("--due", "2026-11-29 10:00", "--late", "10% a day, at most 50%")
    flags += ("--roster", str(names))
    code, said = graded(*flags)
    rows = table(tmp_path / "out")
    assert code == 0 and "extra days" in said and "dan" in said  # not on the roster
    assert [rows[s]["penalty"] for s in ("ann", "ben", "cid", "eve")] == ["0", "1", "1", "0"]
    ben = rows["ben"]
    assert (ben["total"], ben["computed"], ben["late"]) == ("9", "10", "late")
    assert "1 extra day" in rows["cid"]["note"] and rows["ann"]["late"] == ""
    assert "2 h late" in (tmp_path / "out" / "ben" / "feedback.html").read_text(encoding="utf-8")
    by_hand(tmp_path, "ben,total,10,,was ill\n")
    graded(*flags)
    ben = table(tmp_path / "out")["ben"]
    assert ben["total"] == "10" and ben["penalty"] == "1"
    by_hand(tmp_path, "")
    assert "are given back: 3" in graded()[1] and totals(tmp_path / "out")["ben"] == "10"


def test_late_without_a_time_takes_nothing_off():
    due = lateness.due("2026-11-29", "10% a day", {})
    verdict = lateness.judge(due, "ann", None, True, 8)
    assert verdict.late is True and verdict.off == 0 and "does not say how late" in verdict.why


@pytest.mark.parametrize("flags", [("--late", "10% a day"), ("--due", "soon"),
                                   ("--due", "2026-11-29", "--late", "much")])
def test_an_option_that_is_not_understood_stops_it_in_one_line(flags, graded, tmp_path):
    code, said = graded(*flags)
    assert code == 2 and len(said.splitlines()) == 1 and flags[-2] in said


# ---------------------------------------------------------------- roster and regrade


def test_reports_who_is_missing_and_who_is_no_member(graded, tmp_path):
    names = tmp_path / "in" / "roster.csv"  # in the class's folder: no student's
    names.write_bytes("Last Name\tFirst Name\tUsername\r\nRoe\tAnn\tann\r\nPoe\tEve\teve\r\n"
                      .encode("utf-16"))
    code, said = graded("--roster", str(names))
    rows = table(tmp_path / "out")
    assert code == 0 and set(rows) == {"ann", "ben", "cid", "dan", "eve"}
    assert "handed in nothing: 1: eve" in said and "not on the roster" in said
    assert "roster.csv" in said and rows["ann"]["login"] == "ann"


def test_what_a_roster_does_not_tell_is_counted(tmp_path):
    (tmp_path / "r.csv").write_text("Name,Username\nAnn Roe,ann\n,\nPoe, Eve,eve\nx y,\n , \n",
                                    encoding="utf-8")
    found = roster.read(tmp_path / "r.csv")
    assert [m.name for m in found.members] == ["Ann Roe", "Poe", "x y"]
    assert any("in 1 line the cells beyond" in line for line in found.warnings)
    (tmp_path / "s.csv").write_text("Name,Room\nAnn Roe,1\n,2\n,3\n", encoding="utf-8")
    assert "without a name or an id: 2" in roster.read(tmp_path / "s.csv").warnings[0]


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "Student\n", ""])
def test_rejects_a_roster_without_names(text, graded, tmp_path):
    (tmp_path / "roster.csv").write_text(text, encoding="utf-8")
    code, said = graded("--roster", str(tmp_path / "roster.csv"))
    assert code == 2 and "roster.csv" in said and len(said.splitlines()) == 1


def test_a_number_of_ones_own_is_not_taken_for_the_systems():
    subs = [Submission("roe", None, ids=Ids("2"))]
    mine = tables.parse("id,name\n1,roe\n2,poe\n")
    members = [roster.Member("roe", "", "", Ids("1"), 0, 2),
               roster.Member("poe", "", "", Ids("2"), 0, 3)]
    matched = roster.match(roster.Roster(members, mine, [], False), subs, "canvas")
    assert matched.absent == ["poe"]


def test_a_regrade_says_what_changed_and_why(graded, tmp_path):
    graded()
    path = tmp_path / "out" / "ann" / "results.json"
    old = json.loads(path.read_text(encoding="utf-8"))
    old["tests"][1]["score"], old["score"] = 0.5, 8.5
    old["extra_data"]["file_hash"] = "another"
    path.write_text(json.dumps(old), encoding="utf-8")
    code, said = graded("--regrade", "ann")
    assert code == 0 and "ann: task 2 0.5 -> 2 (another file)" in said and "1 of 1 graded" in said
    assert "10 points as before" in graded("--regrade", "ANN")[1]
    by_hand(tmp_path, "ann,2,1,,why\n")
    assert "task 2 2 -> 1 (points by hand)" in graded("--regrade", "ann")[1]
    assert graded("--regrade", "zoe")[0] == 2 and len(table(tmp_path / "out")) == 4


def test_a_regrade_of_one_keeps_those_not_graded(graded, tmp_path):
    place = tmp_path / "in" / "lab15_eve_attempt_2026-11-29-12-00-00_lab15_grpo.zip"
    place.write_bytes(b"PK\x03\x04 damaged")
    assert graded("--student", "ann")[0] == 0
    assert graded("--regrade", "ann")[0] == 0
    note = table(tmp_path / "out")["eve"]["note"]
    assert note.startswith("NOT GRADED: there is no .py file") and "cannot be unpacked" in note


# ---------------------------------------------------------------- for course systems


@pytest.mark.parametrize("system", ["canvas", "moodle", "blackboard"])
def test_a_file_that_the_course_system_takes(system, tmp_path, fakes, capsys):
    there = [s for s in invented.everybody() if s.number != 507]
    invented.as_folder(tmp_path / "in", invented.in_form(system, there))
    path = tmp_path / "roster.csv"
    path.write_bytes(invented.roster(system, invented.everybody()))
    out = tmp_path / "out"
    assert run(tmp_path / "in", out, "--roster", str(path), "--for", system) == 0
    found = tables.read(out / f"scores-{system}.csv")
    head = {"canvas": ["Student", "ID", "SIS User ID", "SIS Login ID", "Section",
                       "Lab 15: GRPO (4711)"],
            "moodle": tables.read(path).header,
            "blackboard": ["Last Name", "First Name", "Username",
                           "Lab 15 [Total Pts: 10 Score] |123456"]}[system]
    assert found.header == head
    by_id = {"canvas": 1, "moodle": 0, "blackboard": 2}[system]
    points = {row[by_id]: row[head.index("Grade") if system == "moodle" else -1]
              for row in found.rows}
    points.pop("", None)
    assert len(points) == 40 and set(points.values()) <= {"10", "0"}


def test_without_a_roster_too_and_says_what_to_look_out_for(tmp_path, fakes, capsys):
    invented.as_folder(tmp_path / "in", invented.in_form("canvas", invented.everybody()))
    assert run(tmp_path / "in", tmp_path / "out", "--for", "canvas", "--column", "Lab 15 (9)") == 0
    lines = (tmp_path / "out" / "scores-canvas.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Student,ID,SIS User ID,SIS Login ID,Section,Lab 15 (9)"
    assert lines[1] == "    Points Possible,,,,,10" and len(lines) == 42


# ---------------------------------------------------------------- tables


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_table_is_read_however_it_was_saved(encoding, separator, end, tmp_path):
    rows = [["Name", "E-Mail", "Note"], ["M\u00fcller, J\u00f6rg", "j@example.edu", 'a "b"']]
    rows.append(["", "", ""])
    with open(tmp_path / "t.csv", "w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator=end).writerows(rows)
    found = tables.read(tmp_path / "t.csv")
    assert [found.header, *found.rows] == rows[:2] and found.numbers == [2]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("1,5", 1.5), (" 2. ", 2), ("+.5", 0.5), ("-1", -1), ("'3", 3), ("", None),
     ("inf", None), ("1e9", None), ("nan", None), ("\u0661", None), ("1 2", None)],
)
def test_numbers_in_tables(text, value):
    assert tables.number(text) == value
