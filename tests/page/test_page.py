"""The page in a real browser: sums shown equal the library's, every control is used, nothing is fetched from elsewhere."""

import os
import re
import shlex
import shutil

import numpy as np
import pytest

import pathexp as px
from pathexp.cli import main
from pathexp.model import Tokenizer
from pathexp.page.report import report

pytestmark = pytest.mark.interop

TEXT = "Macbeth shall sleep no more. Macbeth shall"
OTHER = "Macbeth doth sleep no more. Macbeth shall"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = (
    "</script>",
    "<img src=x onerror=alert(1)>",
    "\u202e",
    "\x00",
    "<b>bold</b>",
    "&amp;",
    "\u2028",
    '"',
    "'",
    "javascript:alert(1)",
)


@pytest.fixture(scope="module")
def chromium():
    if os.environ.get("CI") is None:
        pytest.importorskip("playwright")
        if CHROMIUM is None:
            pytest.skip("no chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served():
    page = px.explore(px.load("attn-2l"), TEXT)
    yield page
    page.stop()


@pytest.fixture(scope="module")
def trace():
    return px.load("attn-2l").run(TEXT)


@pytest.fixture
def opened(chromium, served):
    """A tab with the page; afterwards nothing was wrong on its console, and nothing asked elsewhere."""
    yield from tab(chromium, served.url)


def tab(chromium, url, ready="#verdict.holds", **context):
    with chromium.new_context(viewport={"width": 1280, "height": 900}, **context) as opened:
        page, wrong, asked = opened.new_page(), [], []
        page.set_default_timeout(20_000)
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        if ready:
            page.wait_for_selector(ready)
            settled(page)
        yield page
        expected = [
            said for said in wrong if "status of 400" in said
        ]  # questions that a test asks to be refused
        assert wrong == expected
        elsewhere = [each for each in asked if not each.startswith((url.split("#")[0], "data:", "blob:"))]
        assert not elsewhere


def until(page, script, timeout=20_000):
    """Wait until a script is true; asked from outside, as the page's policy lets nothing be evaluated inside."""
    for _ in range(timeout // 50):
        if page.evaluate(script):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"never true: {script}")


def settled(page):
    until(page, "!document.querySelector('[aria-busy=true]')")


def boxes(page):
    found = page.eval_on_selector_all(
        "#flame .box[data-query]", "all => all.map(e => [e.dataset.query, e.getAttribute('aria-label')])"
    )
    return {query: float(re.search(r", ([-+]?[\d.]+) logits", label)[1]) for query, label in found if query}


def rows(page, selector):
    return page.eval_on_selector_all(
        f"{selector} tbody tr", "all => all.map(row => [...row.cells].map(cell => cell.innerText))"
    )


def test_sums_shown_equal_the_librarys(opened, trace):
    terms, target = px.expand(trace), trace.logit(" sleep")
    shown = boxes(opened)
    assert len(shown) > 40
    for query, value in shown.items():
        assert f"{terms.where(query).value(target):+.4f}" == f"{value:+.4f}", query
    assert opened.inner_text("#verdict") == str(terms.verify().check)
    assert opened.inner_text("#question").startswith(
        "logit of ' sleep' at position 15 is +15.4039 logits, the sum of 81 paths"
    )
    best = terms.top(12, target)
    assert [row[:3] for row in rows(opened, "#tab")[:12]] == [
        [str(term.path), str(term.order), f"{value:+.4f}"]
        for term, value in zip(best, best.values, strict=True)
    ]
    assert opened.locator("#tab math").count() == 12


def test_a_click_opens_a_branch_and_the_address_brings_it_back(opened, trace):
    opened.click('#flame .box[data-query="S .* L1H0 U"]')
    settled(opened)
    terms, target = px.expand(trace), trace.logit(" sleep")
    assert opened.inner_text("#branch-query") == "S .* L1H0 U"
    assert opened.inner_text("#branch-value") == f"{terms.where('S .* L1H0 U').value(target):+.4f}"
    assert [words.strip() for words in opened.locator("#crumbs button").all_inner_texts()] == [
        "all paths",
        "L1H0",
        "S .* L1H0 U",
    ]
    opened.click('#flame .box[data-query="E L0H3 L1H0 U"]')
    settled(opened)
    assert (
        opened.inner_text("#branch-query") == "E L0H3 L1H0 U" and opened.locator("#branch math").count() == 1
    )
    opened.reload()
    opened.wait_for_selector("#branch-value")
    settled(opened)
    assert opened.inner_text("#branch-query") == "E L0H3 L1H0 U"
    opened.click("#crumbs button >> nth=0")
    settled(opened)
    assert opened.inner_text("#branch-query") == "S .* U"


def test_a_token_asks_about_its_prediction(opened, trace):
    opened.hover("#tokens button >> nth=4")
    top = trace.top_token(4)
    assert trace.model.token_string(top) in opened.inner_text("#next")
    opened.click("#tokens button >> nth=4")
    until(
        opened,
        "document.querySelector('#tokens button:nth-child(5)').getAttribute('aria-pressed') === 'true'",
    )
    settled(opened)
    value = trace.logit(top, position=4).value
    assert f"{value:+.4f}" in opened.inner_text("#question")
    assert f"{boxes(opened)['S .* U']:+.4f}" == f"{value:+.4f}"


def test_a_rival_and_a_target_that_is_no_token(opened, trace):
    opened.fill("#target", " sleep")
    opened.fill("#versus", " fall")
    opened.click("#form button")
    until(opened, "document.querySelector('#question').innerText.includes('minus')")
    settled(opened)
    assert f"{trace.logit_difference(' sleep', ' fall').value:+.4f}" in opened.inner_text("#question")
    opened.fill("#target", "two words here")
    opened.click("#form button")
    opened.wait_for_selector("#problem:not([hidden])")
    assert "not one token" in opened.inner_text("#problem")


def test_queries_are_summed_as_one_types_completed_and_told_where_they_are_wrong(opened, trace):
    opened.click("#tab-query")
    opened.fill("#query-box", "E .* L1H0 U")
    value = px.expand(trace).where("E .* L1H0 U").value(trace.logit(" sleep"))
    until(opened, f"document.querySelector('#query-value')?.innerText === '{value:+.4f}'")
    assert "9 paths" in opened.inner_text("#query-said")
    opened.fill("#query-box", "E .* (U")
    opened.wait_for_selector("#query-said .error")
    assert re.search(r"\n +\^", opened.inner_text("#query-said .error"))
    opened.fill("#query-box", "E .* L1H")
    opened.press("#query-box", "Tab")
    assert opened.input_value("#query-box") == "E .* L1H0"
    opened.fill("#query-box", "E .* L1H0 U")
    opened.press("#query-box", "Enter")
    settled(opened)
    assert opened.inner_text("#branch-query") == "E .* L1H0 U"


def test_prove_tells_its_progress_and_its_end(chromium):
    deep = px.random_model(layers=8, heads=6, d_model=16, d_head=3, d_vocab=9, n_ctx=8, seed=3)
    page = px.explore(deep, "1 2 3")
    for opened in tab(chromium, page.url):
        assert "not proven" in opened.inner_text("#proof")
        opened.click("#prove")
        until(opened, "/\\(proven\\)/.test(document.querySelector('#proof').innerText)", timeout=60_000)
        run = deep.run([1, 2, 3])
        best = px.expand(run).top(12, run.logit(run.top_token()))
        assert [row[0] for row in rows(opened, "#tab")[:12]] == [str(term.path) for term in best]
    page.stop()


def test_a_search_that_is_stopped_says_what_is_proven(chromium):
    deep = px.random_model(
        layers=16, heads=12, d_model=48, d_head=4, d_mlp=96, d_vocab=50, n_ctx=16, norm="rmsnorm", seed=1
    )
    page = px.explore(deep, "1 2 3 4 5 6 7 8")
    for opened in tab(chromium, page.url):
        opened.click("#prove")
        until(opened, "document.querySelector('#proof').innerText.startsWith('searching')")
        opened.click("#tab button:has-text('stop')")
        until(
            opened, "/\\((not )?proven\\)/.test(document.querySelector('#proof').innerText)", timeout=120_000
        )
        assert re.search(
            "not proven: .* may be missing|proven: no other path|nothing bounds", opened.inner_text("#tab")
        )
        assert len(rows(opened, "#tab")) >= 12
    page.stop()


def test_flow_and_its_slider(opened, trace):
    opened.click("#tab-flow")
    opened.wait_for_selector("#flow svg")
    few = opened.locator("#flow .ribbon").count()
    opened.evaluate(
        "const s = document.querySelector('#flow-share'); s.value = 6; s.dispatchEvent(new Event('change'))"
    )
    until(opened, f"document.querySelectorAll('#flow .ribbon').length > {few}")
    whole = px.flow(trace, trace.logit(" sleep"))
    assert opened.locator("#flow .ribbon").count() == min(150, len(whole.edges))
    for label in opened.eval_on_selector_all(
        "#flow .ribbon", "all => all.map(e => e.getAttribute('aria-label'))"
    ):
        writer, reader, value = re.fullmatch(r"(\S+) → (\S+): (\S+) logits", label).groups()
        assert f"{whole[writer, reader] + 0.0:+.4f}".lstrip("+-") == value.lstrip("+-")
    opened.locator('#flow .ribbon[aria-label^="L0H3 → L1H0"]').press("Enter")
    settled(opened)
    edge = opened.inner_text("#branch-query")
    assert edge == "S? .* L0H3 L1H0 .* U"
    assert opened.inner_text("#branch-value") == f"{whole['L0H3', 'L1H0']:+.4f}"
    opened.locator('#flow .ribbon[aria-label^="L1H0 → U"]').press("Enter") if opened.locator(
        '#flow .ribbon[aria-label^="L1H0 → U"]'
    ).count() else None


def test_heads_by_contribution_and_by_type(opened, trace):
    opened.click("#tab-heads")
    opened.wait_for_selector(".heads button")
    direct = px.attribution(trace, trace.logit(" sleep"), by="head")
    said = opened.eval_on_selector_all(".heads button", "all => all.map(e => e.title)")
    assert len(said) == 16 and f"L1H0 {direct['L1H0']:+.4f}" in said
    opened.click("#tab details summary")
    table = rows(opened, "#heads-table")
    assert [row[0] for row in table] == ["L0", "L1"] and table[1][1] == f"{direct['L1H0']:+.4f}"
    opened.select_option("#heads-by", "induction")
    until(opened, "document.querySelector('#tab').innerText.includes('random repeats')")
    opened.click('.heads button[title^="L1H3"]')
    settled(opened)
    assert opened.inner_text("#branch-query") == "S? .* L1H3 .* U"


def test_the_lens(opened, trace):
    opened.click("#tab-lens")
    opened.wait_for_selector("#lens-0 svg")
    found = px.lens(trace, trace.logit(" sleep"))
    shown = rows(opened, "#tab .pair > div > div:not(.picture) > .scroll")
    assert [row[0] for row in shown[: len(found.points)]] == list(found.points)
    assert [row[3] for row in shown[: len(found.points)]] == [
        f"{value:+.4f}" for value in found.values("own")
    ]
    titles = opened.eval_on_selector_all("#lens-0 rect > title", "all => all.map(e => e.textContent)")
    values = found.figures()["lens"].data["values"]
    assert len(titles) == sum(map(len, values)) == len(found.points) * len(trace)
    assert titles[-1] == f'L1.out, 15 " shall": {values[-1][-1]:+.4f} logits'
    assert opened.inner_text("#lens-0").rstrip().endswith('" sleep" 0.992')
    opened.click("#tab details summary >> nth=0")
    cells = rows(opened, "#tab details[open]")
    assert [row[-1] for row in cells] == [f"{row[-1]:+.4f}" for row in values]
    with opened.expect_download() as download:
        opened.click('[data-picture="lens-0"]')
    assert download.value.suggested_filename == "pathexp-lens-0.svg"


def test_a_heads_attention_why_and_the_cut(opened, trace):
    opened.click('#flame .box[data-query="S .* L1H0 U"]')
    settled(opened)
    opened.click("#branch details.head > summary")
    opened.wait_for_selector("#branch details.head .bars")
    shown = opened.locator("#branch details.head .bars").first.locator(".number").all_inner_texts()
    assert shown == [f"{weight:.3f}" for weight in trace.patterns[1, 0, -1]]
    opened.click("#branch details.why > summary")
    opened.wait_for_selector("#branch details.why table")
    assert "terms of the score of L1H0" in opened.inner_text("#branch details.why")
    opened.click("#branch details.cut > summary")
    opened.wait_for_selector("#branch details.cut table")
    frozen, live = px.intervene(trace, trace.logit(" sleep"), cut="S .* L1H0 U")[0].effect(
        trace.logit(" sleep")
    )
    assert f"frozen {frozen:+.4f}, live {live:+.4f}" in opened.inner_text("#branch details.cut")


def test_neurons_of_an_mlp(chromium):
    model = px.random_model(layers=2, heads=2, d_mlp=24, norm="rmsnorm", seed=4)
    page = px.explore(model, "1 2 3")
    for opened in tab(chromium, page.url):
        opened.click('#flame .box[data-query="S .* L1M U"]')
        settled(opened)
        opened.click("#branch details.mlp > summary")
        opened.wait_for_selector("#branch details.mlp .bars")
        assert "16 other neurons" in opened.inner_text("#branch details.mlp")
    page.stop()


def test_a_second_text_makes_it_a_contrast(opened, trace):
    opened.fill("#other", OTHER)
    opened.click("#form button")
    until(opened, "document.querySelector('#question').innerText.includes('differs between')")
    opened.wait_for_selector("#verdict.holds")
    settled(opened)
    terms = px.expand(px.contrast(trace, trace.model.run(OTHER)))
    assert opened.inner_text("#verdict") == str(terms.verify().check)
    shown = boxes(opened)
    assert any(".K" in query for query in shown)
    for query, value in shown.items():
        assert f"{terms.where(query).value(trace.logit(' sleep')):+.4f}" == f"{value:+.4f}"
    assert opened.locator("#other-tokens .differs").count() == int(
        (trace.tokens != trace.model.run(OTHER).tokens).sum()
    )
    opened.fill("#other", "too short")
    opened.click("#form button")
    opened.wait_for_selector("#problem:not([hidden])")
    assert "one length" in opened.inner_text("#problem")


def test_by_keyboard_alone(opened):
    opened.focus("#tokens button[tabindex='0']")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("Enter")
    until(
        opened,
        "document.querySelector('#tokens button:nth-child(14)').getAttribute('aria-pressed') === 'true'",
    )
    settled(opened)
    opened.focus("#flame .box[tabindex='0']")
    opened.keyboard.press("ArrowDown")
    first = opened.evaluate("document.activeElement.dataset.query")
    opened.keyboard.press("ArrowRight")
    second = opened.evaluate("document.activeElement.dataset.query")
    assert first != second
    opened.keyboard.press("Enter")
    until(opened, f"document.querySelector('#branch-query')?.innerText === {second!r}")
    settled(opened)
    assert opened.evaluate("document.activeElement.dataset.query") == second
    opened.keyboard.press("Escape")
    until(opened, "document.querySelector('#branch-query')?.innerText === 'S .* U'")
    opened.focus("#tab-paths")
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("Enter")
    opened.wait_for_selector("#flow svg")


def test_switches_of_the_flame_graph(opened, trace):
    opened.check("#by-token")
    until(
        opened,
        "[...document.querySelectorAll('#flame .box')].some(e => e.getAttribute('aria-label').startsWith('6 \" sleep\"'))",
    )
    opened.uncheck("#by-token")
    until(opened, "document.querySelectorAll('#flame .box[data-query]').length > 20")
    many = len(boxes(opened))
    opened.evaluate(
        "const s = document.querySelector('#hide'); s.value = 50; s.dispatchEvent(new Event('input'))"
    )
    assert len(boxes(opened)) < many
    opened.select_option("#by", "beginnings")
    until(
        opened,
        "[...document.querySelectorAll('#flame .box')].some(e => (e.dataset.query || '').startsWith('E L1H0'))",
    )
    settled(opened)
    terms = px.expand(trace)
    for query, value in boxes(opened).items():
        assert f"{terms.where(query).value(trace.logit(' sleep')):+.4f}" == f"{value:+.4f}", query
    opened.click("#flame-table summary")
    until(opened, "document.querySelectorAll('#flame-table tbody tr').length > 10")


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_widths_and_themes(chromium, served, width, scheme):
    for opened in tab(chromium, served.url, color_scheme=scheme):
        opened.set_viewport_size({"width": width, "height": 900})
        for name in ("paths", "flow", "heads", "lens", "query"):
            opened.click(f"#tab-{name}")
            settled(opened)
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
        small = opened.evaluate(
            "[...document.querySelectorAll('body *')].filter(e => !e.closest('math') && e.textContent.trim() && parseFloat(getComputedStyle(e).fontSize) < 11).map(e => e.outerHTML.slice(0, 80))"
        )
        assert not small
        pairs = opened.evaluate(
            "['body', '#next', '#question b', '#verdict', 'label', 'caption'].map(s => document.querySelector(s)).filter(Boolean).map(e => [getComputedStyle(e).color, getComputedStyle(document.querySelector('section')).backgroundColor])"
        )
        pairs += opened.evaluate(
            "['pos', 'neg'].map(s => ['#flame .box text', `#flame rect.${s}`].map(e => getComputedStyle(document.querySelector(e)).fill))"
        )
        for ink, ground in pairs:
            assert contrast_of(ink, ground) >= 4.5, (ink, ground)


def contrast_of(ink, ground):
    """The contrast of two colors, as WCAG 2 defines it."""

    def light(color):
        parts = np.array([float(x) for x in re.findall(r"[\d.]+", color)[:3]]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((light(ink), light(ground)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_code_that_is_handed_out_makes_the_same_numbers(opened, trace, capsys):
    opened.click('#flame .box[data-query="S .* L1H0 U"]')
    settled(opened)
    opened.get_by_text("copy as Python").click()
    opened.wait_for_selector("#code:not([hidden])")
    exec(opened.inner_text("#code"), {})
    said = capsys.readouterr().out
    assert "15.4039" in said and said.strip().splitlines()[-1].startswith("3.4630")
    opened.get_by_text("copy as command").click()
    until(opened, "document.querySelector('#code').innerText.startsWith('pathexp tree')")
    assert main(shlex.split(opened.inner_text("#code"))[1:]) == 0
    assert "+3.4630" in capsys.readouterr().out


def test_a_picture_is_saved_with_its_text_and_colors(opened, tmp_path):
    with opened.expect_download() as download:
        opened.click('[data-picture="flame"]')
    file = tmp_path / "flame.svg"
    download.value.save_as(file)
    text = file.read_text(encoding="utf-8")
    assert text.startswith("<svg") and "L1H0" in text and "rgb(0, 114, 178)" in text and "<script" not in text


def hostile():
    model = px.random_model(layers=1, heads=2, d_vocab=len(HOSTILE), seed=1)
    return px.Model(model.config, model.weights, Tokenizer(HOSTILE), "<script>alert(2)</script>")


def test_tokens_are_inert(chromium, tmp_path):
    run = hostile().run(list(range(len(HOSTILE))))
    page = px.explore(run)
    file = tmp_path / "page.html"
    report(run).save(str(file))
    for url in (page.url, file.as_uri()):
        for opened in tab(chromium, url):
            shown = opened.locator("#tokens button").all_inner_texts()
            assert shown[1].startswith('"<img src=x onerror=alert(1)>"') and "\\u202e" in shown[2]
            assert opened.locator("img, b:not(#question b):not(#branch b):not(p > b)").count() == 0
            assert opened.inner_text("#model").startswith("<script>alert(2)</script>")
    page.stop()


def test_a_report_opens_from_disk_and_says_what_it_lacks(chromium, trace, tmp_path):
    file = tmp_path / "page.html"
    report(trace, name="attn-2l").save(str(file))
    for opened in tab(chromium, file.as_uri()):
        assert boxes(opened)["S .* U"] == 15.4039
        opened.click('#flame .box[data-query="S .* L1H0 U"]')
        settled(opened)
        assert opened.inner_text("#branch-value") == "+3.4630"
        for name in ("flow", "heads", "lens", "query", "paths"):
            opened.click(f"#tab-{name}")
            settled(opened)
        opened.click("#tokens button >> nth=2")
        opened.wait_for_selector("#problem:not([hidden])")
        assert "not computed in this file" in opened.inner_text(
            "#problem"
        ) and "pathexp explore attn-2l" in opened.inner_text("#problem")


def test_the_page_saves_itself_as_a_file(opened, chromium, tmp_path):
    with opened.expect_download(timeout=60_000) as download:
        opened.click("#save")
    file = tmp_path / "saved.html"
    download.value.save_as(file)
    for again in tab(chromium, file.as_uri()):
        assert boxes(again) == boxes(opened)


def test_two_tabs_and_a_question_that_is_overtaken(chromium, served):
    first, second = (tab(chromium, served.url) for _ in range(2))
    one, two = next(first), next(second)
    one.click("#tokens button >> nth=3")
    for place in (4, 5, 6, 7):
        two.click(f"#tokens button >> nth={place}", no_wait_after=True)
    until(
        two, "document.querySelector('#tokens button:nth-child(8)').getAttribute('aria-pressed') === 'true'"
    )
    until(
        one, "document.querySelector('#tokens button:nth-child(4)').getAttribute('aria-pressed') === 'true'"
    )
    until(two, "document.querySelector('#question').innerText.includes('position 7')")
    settled(one)
    settled(two)
    assert "position 7" in two.inner_text("#question") and "position 3" in one.inner_text("#question")
    for each in (first, second):
        assert next(each, None) is None


def test_a_server_that_was_stopped_is_told_in_words(chromium):
    page = px.explore(px.load("attn-1l"), TEXT)
    with chromium.new_context() as context:
        opened = context.new_page()
        opened.goto(page.url)
        opened.wait_for_selector("#verdict.holds")
        page.stop()
        opened.click("#tokens button >> nth=2")
        opened.wait_for_selector("#problem:not([hidden])")
        assert "does not answer" in opened.inner_text("#problem")
