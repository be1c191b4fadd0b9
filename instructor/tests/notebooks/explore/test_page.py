"""The scenes of the explore page in a real browser: by mouse, by keyboard, on a phone."""

import re

import pytest

from instructor.tests import browser
from instructor.tests.notebooks.explore.walking import SCENES, WIDTHS, Walks

pytest.importorskip("torch", reason="pip install -r requirements.txt")


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """Give the Walks over a page that is built once, in a folder whose name has spaces."""
    from notebooks.explore import build

    with browser.chromium() as started:
        path = tmp_path_factory.mktemp("a page") / "explore.html"
        build.write(path)
        yield Walks(started, path)


def numbers(text):
    """Return all decimals in a text."""
    return [float(x) for x in re.findall(r"-?\d+\.\d+", text)]


# ============================================================== by mouse


def test_group_is_sampled_and_judged(walk):
    with walk() as w:
        w.visit()
        assert "policy" in w.text() and not w.page.query_selector(".responses")
        w.click(".option >> text='3'")
        assert re.search(r"You said .3.\. (And 3 it was|This time it was \d)", w.text())
        responses = [w.text_of(e) for e in w.page.query_selector_all(".response")]
        right = [r for r in responses if "right, reward 1" in r]
        assert len(responses) == 8 and all("8" in r and "5" in r for r in right)
        said = int(re.search(r"Of 8 samples, (\d) w", w.says()[0])[1])
        assert said == len(right)
        w.click("#again")
        assert [w.text_of(e) for e in w.page.query_selector_all(".response")] != responses
        w.click("#sample-64")
        counts = [int(e.inner_text()) for e in w.page.query_selector_all(".tally td:nth-child(2)")]
        assert sum(counts) == 64


def test_moments_and_temperature_move_the_bars(walk):
    with walk() as w:
        w.visit("guesses=0")
        before = int(re.search(r"right sum, with probability (\d+)%", w.says()[0])[1])
        w.slide("moment", 99)
        after = re.search(r"right sum, with probability (\d+)", w.says()[0])
        assert before < 50 < 80 < int(after[1])
        w.slide("moment", 0)
        w.slide("temperature", 0.2)
        cold = int(re.search(r"with probability (\d+)", w.says()[0])[1])
        assert cold > before + 30


def test_moments_play_and_stop_at_the_end(walk):
    with walk() as w:
        w.visit("guesses=0")
        last = int(w.page.get_attribute("#moment", "max"))
        w.slide("moment", last - 1)
        assert w.text("#play") == "Play"
        w.click("#play")
        w.page.wait_for_function(f"document.querySelector('#moment').value == '{last}'")
        w.page.wait_for_function("document.querySelector('#play').innerText == 'Play'")


def test_advantages_follow_the_rewards(walk):
    with walk() as w:
        w.visit("scene=2")
        w.click("text='a right one'")
        assert "+1.73" in w.text(".reply")
        w.click("#all-wrong")
        assert "no signal" in w.says()[0]
        w.click(".rewards li:nth-child(2) button")
        assert "1 of 8 responses is right" in w.says()[0] and "+2.64" in w.says()[0]
        w.click("#std")
        assert "+0.88" in w.says()[0]  # 7/8
        w.slide("G", 4)
        assert len(w.page.query_selector_all(".rewards button")) == 4


def test_ratio_of_a_token_and_the_clip(walk):
    with walk() as w:
        w.visit("scene=3")
        w.click("text='leaves it alone'")
        w.slide("inner", 0)
        ratios = {w.text_of(e) for e in w.page.query_selector_all(".cell .small")}
        assert ratios == {"1.00"} and "all 24 ratios are 1" in w.text()
        w.slide("inner", 8)
        w.click(".cell.good >> nth=0")
        w.slide("rho", 1.5)
        assert "the clip binds, and the gradient of this part is 0" in w.says()[0]
        w.slide("rho", 0.5)
        assert "pushes the token up" in w.says()[0] and "so it can come back" in w.says()[0]
        w.click(".cell.bad >> nth=0")
        w.slide("rho", 0.5)
        assert "the clip binds" in w.says()[0]
        w.slide("rho", 1.5)
        assert "pushes the token down" in w.says()[0]
        w.click("#real")
        assert "rho=" not in w.page.url


@pytest.mark.parametrize("rho, A_sign", [(1.5, "good"), (0.5, "good"), (1.5, "bad"), (1.0, "bad")])
def test_the_worked_objective_adds_up(walk, rho, A_sign):
    with walk() as w:
        w.visit("scene=3&guesses=0&inner=4&beta=0.5")
        w.click(f".cell.{A_sign} >> nth=0")
        w.slide("rho", rho)
        given, both = re.findall(r"= min\(([^=]*)", w.text(".worked"))[1:]
        ratio, A, clipped, _, beta, k3 = numbers(given.replace("(", "").replace(")", ""))
        free, bound, leash = numbers(both)
        assert ratio == rho and clipped == max(0.8, min(1.2, rho)) and beta == 0.5
        assert abs(free - ratio * A) < 2e-3 and abs(bound - clipped * A) < 2e-3
        assert abs(leash - beta * k3) < 2e-3
        shown = [w.text_of(e) for e in w.page.query_selector_all(".worked strong")]
        counts, objective = (float(x) for x in shown)
        assert counts == min(free, bound) and abs(objective - (counts - leash)) < 2e-3


def test_the_point_on_the_clip_curve_can_be_dragged(walk):
    with walk() as w:
        w.visit("scene=3&guesses=0")
        w.page.locator(".draggable").scroll_into_view_if_needed()
        box = w.page.locator(".draggable").bounding_box()
        middle = box["y"] + box["height"] / 2
        w.page.mouse.move(box["x"] + 0.5 * box["width"], middle)
        w.page.mouse.down()
        w.page.mouse.move(box["x"] + 0.9 * box["width"], middle, steps=4)
        w.page.mouse.up()
        w.settle()
        assert 1.7 < float(w.page.input_value("#rho")) < 1.95
        assert "with a ratio of your choice" in w.text()


def test_loss_adds_up_line_by_line(walk):
    with walk() as w:
        w.visit("scene=4")
        w.click("text='less than 6'")
        assert not w.page.query_selector("#loss-value")
        for _ in range(4):
            w.click("#next-line")
        loss, other = numbers(w.text("#loss-value"))[0], numbers(w.text("#token-mean-value"))[0]
        rows = [w.text_of(e) for e in w.page.query_selector_all(".loss tbody tr")]
        means = [float(re.search(r"/ \d = (-?[\d.]+)", r)[1]) for r in rows]
        lengths = [int(re.search(r"/ (\d) =", r)[1]) for r in rows]
        assert abs(loss + sum(means) / len(means)) < 1e-3
        tokens = sum(m * n for m, n in zip(means, lengths)) / sum(lengths)
        assert abs(other + tokens) < 1e-3 and len(set(lengths)) > 1
        assert abs(loss - other) > 1e-3  # the two means differ where the lengths do


def test_updates_move_the_probabilities(walk):
    with walk() as w:
        w.visit("scene=5")
        w.click(".option >> nth=2")
        said = numbers(w.text(".reply"))[-3:]
        w.click("#one-update")
        assert "1 update" in w.text(".count") and "Update 1 sampled" in w.text()
        assert abs(said[1] - said[0] - said[2]) < 2e-3
        w.click("#five-updates")
        start, end = map(int, re.search(r"went from (\d+)% to (\d+)%", w.says()[0]).groups())
        assert end > start
        assert "12+60" in w.says()[1] and "updates=6" in w.page.url
        w.click("#restart")
        assert "No update yet" in w.says()[0]


def test_losses_stand_side_by_side_and_learn(walk):
    with walk() as w:
        w.visit("scene=6")
        w.click("text='those of the short one'")
        assert len(w.page.query_selector_all(".seven tbody tr")) == 7
        w.click("[role=radio] >> text='GSPO'")
        assert "One ratio for the whole response" in w.text()
        differs = [w.text_of(e) for e in w.page.query_selector_all(".anatomy strong")]
        assert [d.lstrip("\u2260 ") for d in differs] == [
            "one for the whole response", "0.9997 to 1.0004", "none"]
        w.click("[role=radio] >> text=/^GRPO$/")
        assert not w.page.query_selector(".anatomy strong")
        w.click("[role=radio] >> text='GSPO'")
        w.slide("length", 20)
        assert "With 20 tokens: GRPO: per response 0.15" in w.says()[0]  # 3 / 20
        w.click("#update-all")
        w.page.wait_for_function("document.querySelectorAll('.tally tbody tr').length == 7")


def test_training_experiments_and_the_detective(walk):
    from notebooks.detective import BUGS, NUMBERS, PAIRS, digest

    with walk() as w:
        w.visit("scene=7")
        w.click(".option >> nth=2")
        w.slide("moment", 99)
        assert "at iteration 300" in w.text()
        w.page.select_option("#setting", "beta")
        w.page.select_option("#curve", "kl")
        w.settle()
        assert any("beta = 1" in s and "leash" in s for s in w.says())
        right = next(letter for letter in BUGS if digest(1, letter) in PAIRS)
        wrong = next(letter for letter in BUGS if letter != right)
        w.click(f"#bug-{wrong}")
        assert "no. Look at" in w.text(".verdict-line")
        w.click(f"#bug-{right}")
        assert "that is it" in w.text(".verdict-line")
        assert len(w.page.query_selector_all(".radios [role=radio]")) == len(NUMBERS)


def test_a_lab_files_numbers_stand_beside_the_right_ones(walk, tmp_path):
    from notebooks.explore import build

    text = (build.HERE.parents[1] / "solutions" / "lab15_grpo.py").read_text(encoding="utf-8")
    for right, wrong in {"torch.min(unclipped, clipped)": "torch.max(unclipped, clipped)",
                         "    d = ref_logp - logp\n":
                         '    raise ValueError("<img src=x onerror=alert(1)>")\n'}.items():
        assert text.count(right) == 1
        text = text.replace(right, wrong)
    lab = tmp_path / "lab15_grpo.py"
    lab.write_text(text, encoding="utf-8")
    build.write(tmp_path / "mine.html", lab)
    with Walks(walk.started, tmp_path / "mine.html")() as w:
        w.visit("scene=8")
        assert "3 of 5 tasks give the right numbers here" in w.text()
        tasks = [w.text_of(e) for e in w.page.query_selector_all("section.mine")]
        assert "stopped with an error" in tasks[2] and "<img src=x" in tasks[2]
        assert "is the first that differs" in tasks[3] and "-k task4" in tasks[3]
        assert "equal" in tasks[1] and not w.page.query_selector("main img")
        w.visit("scene=4&guesses=0")
        assert "Your grpo_loss: \u2260 differs" in w.text(".task")


# ============================================================== its own policy


def test_the_page_lets_nothing_else_run_and_asks_for_nothing(walk):
    with walk(strict=True) as w:
        for number in range(1, 9):
            w.visit(f"scene={number}&guesses=0&line=4&updates=2")
            w.settle()
        assert w.faults == []  # its own scripts and styles are allowed
        w.visit("guesses=0")
        tried = w.page.evaluate("""async () => {
            const script = document.createElement("script");
            script.textContent = "globalThis.foreign = 1";
            document.body.append(script);
            const asked = await fetch("https://127.0.0.1:9/").then(() => "came", (e) => e.name);
            return [typeof globalThis.foreign, asked];
        }""")
        assert tried == ["undefined", "TypeError"]
        told = [f for f in w.faults if "Content Security Policy" in f]
        assert len(told) >= 2
        assert not [f for f in w.faults if f.startswith("request")]
        w.faults.clear()


def test_where_scripts_may_not_run_the_page_says_so(walk, tmp_path):
    text = walk.path.read_text(encoding="utf-8")
    barred = re.sub("script-src [^;]*", "script-src 'none'", text, count=1)
    assert barred != text
    (tmp_path / "barred.html").write_text(barred, encoding="utf-8")
    with Walks(walk.started, tmp_path / "barred.html")(strict=True) as w:
        w.page.goto(w.path.as_uri())
        w.page.wait_for_selector(".late", state="visible")
        assert "save the file, and open it from your disk" in w.text("#page")
        w.faults.clear()


# ============================================================== by keyboard


def test_all_scenes_by_keyboard(walk):
    with walk() as w:
        w.visit()
        for number, name in enumerate(SCENES, 1):
            assert w.text("h2").startswith(f"{number}. ")
            assert name in w.page.title()
            if number > 1:
                assert w.focused() == "scene-title"
            if number < 8:
                first = w.page.query_selector(".option")
                first.focus()
                w.press("Enter")
                assert "You said" in w.text(".guess") and w.focused().startswith("guess-")
                w.press("Shift+ArrowRight")
        w.press("Shift+ArrowLeft")
        assert w.text("h2").startswith("7. ")


def test_tokens_by_arrow_keys(walk):
    with walk() as w:
        w.visit("scene=3&guesses=0&token=0.0")
        w.page.focus(".cell[tabindex='0']")
        assert len(w.page.query_selector_all(".token-grid [tabindex='0']")) == 1
        w.press("ArrowRight", "ArrowRight")
        assert "token=0.2" in w.page.url
        before = w.says()[0]
        w.press("ArrowDown")
        assert w.says()[0] != before
        chosen = w.page.query_selector(".cell[aria-checked=true]")
        assert w.page.evaluate("e => e === document.activeElement", chosen)
        w.page.focus("#rho")
        w.press("ArrowRight", "ArrowRight")
        assert "rho=" in w.page.url and w.focused() == "rho"


def test_focus_is_seen(walk):
    with walk() as w:
        w.visit("guesses=0")
        unseen = []
        for _ in range(40):
            w.page.keyboard.press("Tab")
            name, style, width = w.page.evaluate("""() => { const e = document.activeElement,
                s = getComputedStyle(e); return [e.id || e.className || e.tagName,
                s.outlineStyle, parseFloat(s.outlineWidth)]; }""")
            if name != "BODY" and (style == "none" or width < 2):
                unseen.append(name)
        assert unseen == []


def test_a_presenters_clicker_turns_scenes_in_large_type(walk):
    with walk() as w:
        w.visit("type=large")
        size = w.page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
        assert size >= 22
        w.press("End")
        w.page.wait_for_function(
            "scrollY + innerHeight >= document.documentElement.scrollHeight - 4")
        w.press("PageDown")
        assert w.text("h2").startswith("2. ")
        w.page.wait_for_function("scrollY < 4")
        w.press("PageUp")
        assert w.text("h2").startswith("1. ")


# ============================================================== links


def test_a_link_opens_a_scene_in_a_state(walk):
    with walk() as w:
        w.visit("scene=3&sum=12%2B60&step=0&inner=5&eps=0.3&token=1.1&guesses=0")
        assert "12+60" in w.page.input_value("#sum")
        assert w.page.input_value("#inner") == "5" and w.page.input_value("#eps") == "0.3"
        assert "of response 1" in w.says()[0]
        same = w.page.url
        w.visit(same.split("#")[1])
        assert "of response 1" in w.says()[0] and w.page.url == same


@pytest.mark.parametrize("state, told", [
    ("scene=9", "scene=9; it must be a whole number from 1 to 8"),
    ("sum=99%2B99", "sum such as"),
    ("step=77777", "no model after 77777 iterations"),
    ("colour=red", '"colour", which this page does not know'),
    ("scene=2&rewards=101", "3 rewards for 8 responses"),
    ("temperature=NaN", "temperature=NaN; it must be a number"),
    ("rho=1e9&scene=3", "rho=1e9; it must be"),
])
def test_what_a_link_asks_in_vain_is_reported(walk, state, told):
    with walk() as w:
        w.visit(state)
        assert told in w.text(".notices")
        assert w.text("h2")


def test_back_returns_to_the_scene_before(walk):
    with walk() as w:
        w.visit("guesses=0")
        w.click("#next")
        w.click("#next")
        w.page.go_back()
        w.page.wait_for_function("document.querySelector('h2').innerText.startsWith('2.')")


@pytest.mark.parametrize("asked, told", [("37+", "sum"), ("99+99", "below 100"), ("x", "sum")])
def test_a_sum_that_cannot_be_asked_is_explained(walk, asked, told):
    with walk() as w:
        w.visit("guesses=0")
        before = w.says()
        w.page.fill("#sum", asked)
        w.press("Enter")
        assert told in w.text("#sum-problem") and w.says() == before
        w.page.fill("#sum", "2 + 3")
        w.press("Enter")
        assert "2+3" in w.says()[0] and not w.text("#sum-problem").strip()


# ============================================================== everybody can use it


@pytest.mark.parametrize("place", WIDTHS)
def test_no_scene_is_wider_than_the_window(walk, place):
    with walk(WIDTHS[place]) as w:
        for number in range(1, 9):
            w.visit(f"scene={number}&guesses=0&line=4&updates=2")
            wide = w.page.evaluate("document.documentElement.scrollWidth")
            assert wide <= WIDTHS[place], f"scene {number} is {wide} pixels wide"


def test_pictures_have_words(walk):
    with walk() as w:
        for number in range(1, 9):
            w.visit(f"scene={number}&guesses=0&line=4&updates=1")
            for chart in w.page.query_selector_all("svg.chart"):
                assert chart.get_attribute("role") == "img"
                assert len(chart.get_attribute("aria-label")) > 10
            for figure in w.page.query_selector_all("figure"):
                assert figure.query_selector("figcaption"), f"scene {number}"


def test_what_changes_is_announced(walk):
    with walk() as w:
        w.visit("scene=2&guesses=0")
        w.click("#all-right")
        w.page.wait_for_function(
            "document.querySelector('#announcer').textContent.includes('no signal')")


def test_nothing_moves_unasked(walk):
    for motion in ("reduce", "no-preference"):
        with walk(reduced_motion=motion) as w:
            for number in range(1, 9):
                w.visit(f"scene={number}&guesses=0")
                assert w.page.evaluate("document.getAnimations().length") == 0
                before = w.page.inner_html("#main")
                w.page.wait_for_timeout(300)
                assert w.page.inner_html("#main") == before


@pytest.mark.parametrize("scheme, width", [("light", 1280), ("dark", 1280), ("light", 390)])
def test_axe_finds_no_violation(walk, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=(
        "axe is missing: pip install -r instructor/requirements.txt")).Axe()
    with walk(width, color_scheme=scheme) as w:
        for number in range(1, 9):
            for guesses in (0, 1):
                w.visit(f"scene={number}&guesses={guesses}&line=4&updates=1")
                found = axe.run(w.page).response["violations"]
                told = [f"{v['id']}: {v['nodes'][0]['html'][:120]}" for v in found]
                assert told == [], f"scene {number}, guesses={guesses}"
