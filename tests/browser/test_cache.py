"""The Library's cache details in a real browser, over a tree whose KV are plain bytes."""

import pytest
from playwright.sync_api import expect

from tests.support.fake_backend.cache import GIB
from tests.support.page_checks import in_both_themes, serious, too_wide

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror='window.harmed=1'> <b>bold</b> $$x$$ \u202e.md"


@pytest.fixture
def look(visit, backend):
    """Open the page on a filled cache: `look(names=..., **options of visit)`."""

    def opened(names=("harbour-handbook.md", "fares.pdf"), fill=True, **options):
        if fill:
            backend.cache.fill(names, text=options.pop("text", "The Gannet sails at nine. "))
            backend.cache.ask(exact=400, chunk=500, missed=100)
            backend.cache.ask(chunk=900, missed=100)
        tab = visit(**options)
        tab.go("Library", "Cache details")
        if fill:
            expect(tab.page.locator("#cache-tree .slice").first).to_be_visible()
        return tab

    return opened


def line(tab, place):
    return tab.page.locator("#cache-list button").nth(place)


@pytest.mark.slow
def test_the_tree_by_mouse_and_the_list_by_keyboard_show_a_passage(look):
    tab = look()
    expect(tab.page.locator("#cache-tree .slice")).to_have_count(19)  # 15 passages, 3 documents, the root
    tab.page.locator("#cache-tree .slice", has_text="Passage 2, page 1").first.click()
    expect(tab.page.locator("#cache-detail h3")).to_contain_text("Passage 2, page 1")
    expect(tab.page.locator("#cache-detail .kv-passage")).to_contain_text("The Gannet sails at nine.")
    expect(tab.page.locator("#cache-list [aria-current]")).to_have_count(1)
    tab.page.locator("#cache-tree .slice", has_text="fares.pdf").first.click()  # a document opens, nothing is chosen
    expect(tab.page.locator("#cache-tree .slice", has_text="harbour-handbook.md")).to_have_count(0)
    expect(tab.page.locator("#cache-detail h3")).to_contain_text("Passage 2, page 1")
    line(tab, 0).focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
        tab.page.keyboard.press(key)
    expect(line(tab, 2)).to_have_attribute("aria-current", "true")
    expect(tab.page.locator("#cache-detail h3")).not_to_contain_text("Passage 2, page 1")
    tab.page.keyboard.press("End")
    expect(tab.page.locator("#cache-list button").last).to_be_focused()
    assert tab.errors == [] and tab.outside == []


@pytest.mark.slow
def test_a_pinned_passage_stays_until_unpinned_and_eviction_and_clearing_are_confirmed(look, backend):
    tab = look()
    line(tab, 1).click()
    tab.page.get_by_role("button", name="Pin", exact=True).click()
    expect(tab.page.locator("#cache-message")).to_contain_text("Pinned")
    expect(line(tab, 1).locator("b")).to_have_text("pinned")
    expect(line(tab, 1)).to_have_attribute("aria-current", "true")
    expect(tab.page.get_by_role("button", name="Evict…")).to_be_disabled()
    assert [node.pinned for node in backend.cache.tree.match_prefix(["01000001"])] == [True]
    tab.page.get_by_label("Budget of Memory, in GiB").fill("0")
    expect(tab.page.locator("#cache-message .kv-error")).to_contain_text("pinned or being read")
    expect(tab.page.get_by_label("Budget of Memory, in GiB")).to_have_value("1.5")
    expect(tab.page.locator("#cache-tiers output").first).to_have_text("1.50\u00a0GiB")
    tab.page.get_by_role("button", name="Unpin", exact=True).click()
    expect(line(tab, 1).locator("b")).to_have_count(0)

    tab.page.get_by_role("button", name="Evict…").click()
    tab.page.get_by_role("button", name="Cancel").click()
    expect(tab.page.locator("#cache-detail .kv-confirm")).to_have_count(0)
    tab.page.get_by_role("button", name="Evict…").click()
    tab.page.get_by_role("button", name="From memory only").click()
    expect(tab.page.locator("#cache-message")).to_contain_text("from memory")
    tab.page.get_by_role("button", name="Evict…").click()
    tab.page.locator("#cache-detail .kv-danger").click()
    expect(tab.page.locator("#cache-detail")).to_contain_text("no longer in the cache")
    expect(tab.page.locator("#cache-tree .slice")).to_have_count(18)
    assert "01000001" not in backend.cache.tree
    tab.page.get_by_label("Budget of Memory, in GiB").fill("0.1")
    expect(tab.page.locator("#cache-message")).to_contain_text("Memory budget set to 102.4\u00a0MiB")
    expect(tab.page.locator("#cache-message")).to_contain_text("from memory")
    expect(tab.page.locator("#cache-tiers output").first).to_have_text("102.4\u00a0MiB")
    assert backend.cache.tree.tiers[0].size_bytes <= 0.1 * GIB

    tab.page.get_by_role("button", name="Clear…").click()
    tab.page.get_by_role("button", name="Cancel").click()
    assert not backend.cleared
    tab.page.get_by_role("button", name="Clear…").click()
    tab.page.locator("#cache-buttons .kv-danger").click()
    expect(tab.page.locator("#cache-message")).to_contain_text("The cache is empty")
    expect(tab.page.locator("#cache-tree")).to_be_hidden()
    assert backend.cleared
    backend.cache.fill()
    tab.go("Ask")
    tab.go("Library", "Cache details")
    expect(tab.page.locator("#cache-list button")).to_have_count(15)
    before = tab.page.inner_text("#cache-totals")
    backend.cache.ask(exact=300, missed=100)
    tab.page.get_by_role("button", name="Refresh").click()
    expect(tab.page.locator("#cache-totals")).not_to_have_text(before)
    expect(tab.page.locator("#cache-hits path.js-fill").first).to_be_attached()
    assert tab.errors == []


@pytest.mark.slow
def test_hostile_names_and_texts_are_shown_as_text_also_inside_the_figure(look):
    tab = look(names=(HOSTILE + "\u9577" * 60, "x" * 300 + ".md"), text=f"{HOSTILE} <script>window.harmed=2</script>")
    line(tab, 1).click()
    expect(tab.page.locator("#cache-detail .kv-passage")).to_contain_text("<script>")
    box = tab.page.locator("#cache-tree .slice", has_text="Passage 2, page 1").first
    box.hover()
    expect(tab.page.locator("#cache-tree .hoverlayer")).to_contain_text("<img src=x onerror='window.harmed=1'>")
    expect(tab.page.locator("#cache-tree .slice", has_text="<img src=x").first).to_be_attached()
    for place in ("#cache-list", "#cache-detail", "#cache-tree"):
        assert tab.page.locator(f"{place} img, {place} script, {place} .katex, {place} image").count() == 0
    assert tab.page.evaluate("window.harmed") is None
    tab.page.set_viewport_size({"width": 390, "height": 844})  # a phone scrolls down only, even with long names
    line(tab, 0).click()
    tab.page.get_by_role("button", name="Evict…").click()
    expect(tab.page.locator("#cache-detail .kv-confirm")).to_be_visible()
    assert too_wide(tab.page, "#cache *") == []
    assert tab.errors == [] and tab.outside == []


@pytest.mark.slow
def test_a_filled_page_has_no_serious_accessibility_violation(look):
    tab = look()
    line(tab, 0).click()
    tab.page.get_by_role("button", name="Evict…").click()
    expect(tab.page.locator("#cache-detail .kv-confirm")).to_be_visible()
    for theme in in_both_themes(tab.page):
        assert serious(tab.page) == [], theme
