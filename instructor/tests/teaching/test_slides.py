"""The slides: one file, with notes, figures and nothing that is loaded from elsewhere."""

import argparse
import re

import pytest

from instructor.builders import slides

TEXT = slides.TEXT.read_text(encoding="utf-8").replace("\r\n", "\n")
PARTS = re.split(r"^(?=##? )", TEXT, flags=re.M)[1:]
PLAN = (slides.TEACHING / "lesson-90.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Build the slides once."""
    pytest.importorskip("sphinx", reason="pip install -r instructor/requirements.txt")
    pytest.importorskip("myst_parser", reason="pip install -r instructor/requirements.txt")
    pytest.importorskip("sphinx_revealjs", reason="pip install -r instructor/requirements.txt")
    out = tmp_path_factory.mktemp("slides with a space") / "slides.html"
    parser = argparse.ArgumentParser()
    slides.add_arguments(parser)
    assert slides.run(parser.parse_args(["--out", str(out)])) == 0
    return out.read_text(encoding="utf-8")


def test_nothing_is_loaded(page):
    code = re.sub(r"(?s)<(script|style)>.*?</\1>", "", page)
    assert not re.findall(r'(?:src|href)="(?!data:)', code)
    assert not re.findall(r"@import", re.sub(r"(?s)<script>.*?</script>", "", page))
    assert len(re.findall(r'<img [^>]*src="data:image/(?:png|svg\+xml);base64,', code)) == len(
        re.findall(r"!\[", TEXT))


def test_every_slide_arrives_with_its_notes(page):
    titles = re.findall(r"<h[12]>(.*?)</h[12]>", page)
    assert [re.sub(r"<.*?>", "", title) for title in titles] == [
        part.partition("\n")[0].lstrip("# ") for part in PARTS]
    assert page.count('<aside class="notes">') == len(PARTS)
    assert "check:" not in re.sub(r"(?s)<script>.*?</script>", "", page)


def test_keys_and_numbers_of_slides_are_on(page):
    assert 'slideNumber: "c/t"' in page and "RevealNotes," in page
    assert 'keyboard: {68: () => document.documentElement.classList.toggle("dark")}' in page


def test_pictures_have_alternative_texts():
    found = re.findall(r"!\[([^\]]*)\]", TEXT)
    assert len(found) >= 6 and all(len(words.split()) >= 8 for words in found)


def test_a_drawing_is_taken_before_its_picture(tmp_path, monkeypatch):
    monkeypatch.setattr(slides, "TEACHING", tmp_path)
    (tmp_path / "a.png").write_bytes(b"png")
    assert slides.picture("a.png").name == "a.png"
    (tmp_path / "a.svg").write_bytes(b"svg")
    assert slides.picture("a.png").name == "a.svg"
    with pytest.raises(ValueError, match="no picture b.png"):
        slides.picture("b.png")


def test_the_notes_follow_the_lesson_plan():
    minutes = [int(m) for m in re.findall(r"^Minute (\d+)", TEXT, re.M)]
    assert len(minutes) == len(PARTS) and minutes == sorted(minutes)
    blocks = [(int(a), int(b)) for a, b in re.findall(r"^## (\d+) to (\d+): ", PLAN, re.M)]
    shown = {}
    for part, (start, end) in zip(re.split(r"^## \d+ to \d+: ", PLAN, flags=re.M)[1:], blocks):
        for number in re.findall(r"\bS(\d+)\b", part.partition("\n## ")[0]):
            shown.setdefault(int(number), (start, end))
    assert len(shown) >= 12 and max(shown) == len(PARTS)
    late = {n: minutes[n - 1] for n, (a, b) in shown.items() if not a <= minutes[n - 1] <= b}
    assert not late


def test_slides_are_short():
    for part in PARTS:
        seen = re.sub(r"<!--.*?-->|^:::.*?^:::|!\[[^\]]*\]\([^)]*\)", "", part, flags=re.M | re.S)
        assert len(seen.split()) <= 80, part.partition("\n")[0]
