// Cache details of the Library: buttons and sliders in its HTML, arrow keys in the list, clicks on the plotly tree.
window.kvCache = (() => {
  "use strict";
  const PAUSE_MS = 500; // arrow keys move a slider step by step; only the final value is sent

  // As ui/format.py writes a size, from GiB.
  const sizeOf = (gib) => {
    if (gib === 0) return "0\u00a0B";
    return gib < 1 ? `${(gib * 1024).toFixed(1)}\u00a0MiB` : `${gib.toFixed(2)}\u00a0GiB`;
  };
  const showValue = (slider) => {
    const output = slider.closest("label")?.querySelector("output");
    if (output) output.textContent = sizeOf(Number(slider.value));
  };

  const buttons = (element, trigger) => {
    let timer;
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-act]");
      if (!button) return;
      const { act, id, tier } = button.dataset;
      if (act === "choose") document.dispatchEvent(new CustomEvent("kv-chosen", { detail: id }));
      trigger("click", { act, id, more: tier });
    });
    element.addEventListener("input", (event) => {
      showValue(event.target);
      clearTimeout(timer);
    });
    // Gradio updates attributes in place, which does not move a slider that the user has moved: reset it.
    const reset = () => {
      for (const slider of element.querySelectorAll('input[type="range"]')) {
        slider.value = slider.getAttribute("value");
        showValue(slider);
      }
    };
    const options = { subtree: true, attributes: true, attributeFilter: ["value", "data-refusal"] };
    new MutationObserver(reset).observe(element, options);
    element.addEventListener("change", (event) => {
      const { act, id } = event.target.dataset;
      if (act !== "budget") return;
      clearTimeout(timer);
      timer = setTimeout(() => trigger("click", { act, id, more: event.target.value }), PAUSE_MS);
    });
  };

  const overflow = (row, box) => Math.max(0, row.bottom - box.bottom) + Math.min(0, row.top - box.top);

  const select = (list, key) => {
    const frame = list.querySelector(".kv-nodes") ?? list;
    for (const button of list.querySelectorAll("button[data-id]")) {
      const chosen = button.dataset.id === key;
      button.tabIndex = chosen ? 0 : -1;
      if (chosen) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
      if (chosen) frame.scrollTop += overflow(button.getBoundingClientRect(), frame.getBoundingClientRect());
    }
  };

  const tree = (list, trigger) => {
    buttons(list, trigger);
    let chosen = "";
    document.addEventListener("kv-chosen", (event) => {
      chosen = event.detail;
      select(list, chosen);
    });
    list.addEventListener("keydown", (event) => {
      const all = [...list.querySelectorAll("button[data-id]")];
      const here = all.indexOf(event.target.closest("button[data-id]"));
      const step = { ArrowDown: 1, ArrowUp: -1, Home: -here, End: all.length - 1 - here }[event.key];
      if (here < 0 || step === undefined) return;
      event.preventDefault();
      all[Math.max(0, Math.min(all.length - 1, here + step))].focus();
    });
    // Gradio has no click event for plotly figures and redraws them: attach a listener to each new drawing.
    const listen = () => {
      if (chosen && !list.querySelector("[aria-current]") && list.querySelector(`[data-id="${chosen}"]`)) {
        select(list, chosen);
      }
      const drawn = document.querySelector("#cache-tree .js-plotly-plot");
      if (!drawn?.on || drawn.kvListens) return;
      drawn.kvListens = true;
      drawn.on("plotly_icicleclick", (event) => {
        const key = event.points?.[0]?.customdata;
        if (!key) return true; // a document or the root: plotly zooms
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
