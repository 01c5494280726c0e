"""Pages in headless Chromium, as a reader opens them from a disk."""

import statistics

import pytest
import transcribed
from browser import CHROMIUM, Browser

from analysis import transcripts

CASES = 1250  # on four benchmarks and by two methods: 10,000 consultations

# Milliseconds that twenty consultations take to open, each from a file that is not loaded yet.
TIMES = """(async () => {
  const times = [];
  for (let i = 250; i < 10000; i += 500) {
    const start = performance.now();
    await open(i);
    times.push(performance.now() - start);
  }
  return times;
})()"""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Address of the transcripts of 10,000 consultations."""
    folder = tmp_path_factory.mktemp("transcribed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = transcribed.write_study(CASES)
        path = transcripts.write(study, study.results)
        return path.resolve().as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


def show(browser, address):
    browser.open(address)
    browser.wait("document.querySelector('consultation-view')")


def test_ten_thousand_consultations_open_and_filter(browser, written):
    show(browser, written)
    assert browser.text("#count").startswith("10,002 consultations of 10,002")
    assert browser.value("document.querySelectorAll('.row').length") < 60
    # The median: where the machine is busy for a moment, that says nothing of the page.
    assert statistics.median(browser.value(TIMES)) < 200
    browser.choose("[name=method]", "atpo")
    browser.choose("[name=outcome]", "wrong")
    assert browser.text("#count") == "1,668 consultations of 10,002, 0.0% right"
    browser.choose("[name=from]", "2")
    assert browser.text("#count") == "832 consultations of 10,002, 0.0% right"
    browser.choose("[name=update]", "1")
    assert browser.text("#count").startswith("0 consultations")
    browser.choose("[name=update]", "")
    browser.value("document.querySelector('transcript-list').scrollTop = 1e6")
    browser.wait("document.querySelector('.row:last-child').innerText.includes('01245')")


def test_any_consultation_opens_and_arrow_keys_go_on(browser, written):
    browser.open(f"{written}#method=pcqc&place=clinic_dev&case=01234")
    browser.wait(
        "document.getElementById('shown').dataset.opened === 'clinic_dev/pcqc/A//clinic_dev-01234'"
    )
    assert "best diagnosis right 50.0%" in browser.text("consultation-view")
    show(browser, f"{written}#method=pcqc&place=clinic_dev")
    browser.value(
        "document.querySelector('transcript-list')"
        ".dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))"
    )
    browser.wait("document.getElementById('shown').dataset.opened.endsWith('clinic_dev-00001')")


def test_two_runs_stand_side_by_side_on_the_same_case_and_the_link_keeps_them(browser, written):
    browser.open(f"{written}#method=atpo&place=clinic_wide&outcome=wrong&case=00003")
    browser.wait("document.querySelector('#beside')")
    browser.choose("#beside", "clinic_wide/pcqc/A//clinic_wide-00003")
    browser.wait("document.querySelectorAll('consultation-view').length === 2")
    both = browser.value(
        "[...document.querySelectorAll('consultation-view h3')].map(h => h.innerText)"
    )
    assert [text.split("\n") for text in both] == [
        ["ATPO, run A", "wrong"],
        ["PCQC, run A", "right"],
    ]
    link = browser.value("location.href")
    browser.open(link)
    browser.wait("document.querySelectorAll('consultation-view').length === 2")


def test_a_question_of_training_shows_why_it_was_credited(browser, written):
    browser.open(f"{written}#place=training&method=pcqc")
    browser.wait("document.querySelector('.state')")
    shown = browser.text(".state")
    assert "Executed-local credit" in shown
    assert "credit (0.900 - 0.700) / 0.283" in shown
    executed = browser.text("tr.executed")
    assert "Any amber spots? executed" in executed
    assert "+0.40" in executed


def test_what_a_model_says_is_text(browser, written):
    show(browser, f"{written}#place=clinic_dev&case=00001&method=pcqc")
    assert transcribed.HOSTILE in browser.text("consultation-view")
    assert browser.value("document.title") == "Synthetic clinic, quick: consultations"
    assert browser.value("document.querySelectorAll('#shown img').length") == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_nothing_is_wider_than_a_phone_and_text_stands_out(tmp_path, written, dark):
    with Browser(tmp_path, 400, 800, dark) as browser:
        browser.open(f"{written}#place=training&method=pcqc")
        browser.wait("document.querySelector('.state')")
        assert browser.value("document.documentElement.scrollWidth") <= 400
        colours = browser.value(
            "['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])"
        )
        light, dark_ink = ("rgb(255, 255, 255)", "rgb(228, 232, 235)")
        assert (dark_ink in colours[0]) == dark
        assert (colours[1] == light) != dark


@pytest.fixture(scope="module")
def address(reported):
    """Address of the report of a small simulated study."""
    return (reported / "report.html").as_uri()


@pytest.mark.parametrize("width", [1440, 400])
def test_the_report_says_its_conclusion_first_and_fits_the_screen(tmp_path, address, width):
    with Browser(tmp_path, width, 900) as browser:
        browser.open(address)
        assert browser.value("document.documentElement.scrollWidth") <= width
        first = browser.value("document.querySelector('#conclusion').getBoundingClientRect().top")
        assert first < 900
        assert "Of the paper's 5 claims" in browser.text("#conclusion")
        assert browser.value("[...document.images].every(image => image.naturalWidth > 0)")
        assert browser.value("[...document.querySelectorAll('details')].every(d => !d.open)")
        browser.value("document.querySelector('#training').closest('details').open = true")
        browser.value("document.querySelector('#training').scrollIntoView({behavior: 'instant'})")
        top = browser.value("document.querySelector('nav').getBoundingClientRect().top")
        assert 0 <= top < 60


def test_the_report_leads_to_why_a_checkpoint_was_chosen(browser, address):
    browser.open(address)
    # A link of the contents unfolds its part.
    browser.value("document.querySelector('nav a[href=\"#selection\"]').click()")
    assert browser.value("document.querySelector('#selection').closest('details').open")
    browser.value("document.querySelector('#selection details').open = true")
    assert "lower accuracy than the selected" in browser.text("#selection")
    # A report is read elsewhere too: no link leads to the machine that made it.
    hosts = browser.value(
        "[...document.querySelectorAll('#runs a')].map(a => a.getAttribute('href'))"
    )
    assert not [host for host in hosts if "127.0.0.1" in host or "localhost" in host]
