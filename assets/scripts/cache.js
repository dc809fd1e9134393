// The Cache page: buttons and sliders of its HTML, arrow keys in the list, and clicks into the plotly tree.
window.kvCache = (() => {
  "use strict";
  const PAUSE_MS = 500; // arrow keys move a slider step by step; only where it comes to rest counts

  const say = (slider) => {
    const output = slider.closest("label")?.querySelector("output");
    if (output) output.textContent = `${Number(slider.value).toFixed(1)} GiB`;
  };

  const buttons = (element, trigger) => {
    let resting;
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-act]");
      if (!button) return;
      const { act, id, tier } = button.dataset;
      if (act === "choose") document.dispatchEvent(new CustomEvent("kv-chosen", { detail: id }));
      trigger("click", { act, id, more: tier });
    });
    element.addEventListener("input", (event) => {
      say(event.target);
      clearTimeout(resting);
    });
    // Gradio leaves an element where it is and changes its attributes: a slider that was moved would stay there.
    const settle = () => {
      for (const slider of element.querySelectorAll('input[type="range"]')) {
        slider.value = slider.getAttribute("value");
        say(slider);
      }
    };
    const settled = { subtree: true, attributes: true, attributeFilter: ["value", "data-refusal"] };
    new MutationObserver(settle).observe(element, settled);
    element.addEventListener("change", (event) => {
      const { act, id } = event.target.dataset;
      if (act !== "budget") return;
      clearTimeout(resting);
      resting = setTimeout(() => trigger("click", { act, id, more: event.target.value }), PAUSE_MS);
    });
  };

  const inside = (row, box) => Math.max(0, row.bottom - box.bottom) + Math.min(0, row.top - box.top);

  const mark = (list, key) => {
    const frame = list.querySelector(".kv-nodes") ?? list;
    for (const button of list.querySelectorAll("button[data-id]")) {
      const chosen = button.dataset.id === key;
      button.tabIndex = chosen ? 0 : -1;
      if (chosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
      if (chosen) frame.scrollTop += inside(button.getBoundingClientRect(), frame.getBoundingClientRect());
    }
  };

  const tree = (list, trigger) => {
    buttons(list, trigger);
    let chosen = "";
    document.addEventListener("kv-chosen", (event) => {
      chosen = event.detail;
      mark(list, chosen);
    });
    list.addEventListener("keydown", (event) => {
      const all = [...list.querySelectorAll("button[data-id]")];
      const here = all.indexOf(event.target.closest("button[data-id]"));
      const step = { ArrowDown: 1, ArrowUp: -1, Home: -here, End: all.length - 1 - here }[event.key];
      if (here < 0 || step === undefined) return;
      event.preventDefault();
      all[Math.max(0, Math.min(all.length - 1, here + step))].focus();
    });
    // Gradio has no click event for a plotly figure, and draws it anew: listen to each drawing once.
    const listen = () => {
      if (chosen && !list.querySelector("[aria-current]") && list.querySelector(`[data-id="${chosen}"]`)) {
        mark(list, chosen);
      }
      const drawn = document.querySelector("#cache-tree .js-plotly-plot");
      if (!drawn?.on || drawn.kvListens) return;
      drawn.kvListens = true;
      drawn.on("plotly_icicleclick", (event) => {
        const key = event.points?.[0]?.customdata;
        if (!key) return true; // a document or the root: plotly goes there
        document.dispatchEvent(new CustomEvent("kv-chosen", { detail: key }));
        trigger("click", { act: "choose", id: key });
        return false;
      });
    };
    new MutationObserver(listen).observe(document.querySelector("#cache") ?? document.body, { childList: true, subtree: true });
    listen();
  };

  return { buttons, tree };
})();
