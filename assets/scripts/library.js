// The Library page: clicks on the table's buttons and checkboxes, and changes of its filters, become events. After a
// redraw, the focus returns to the element that had it, or moves once to the one with data-focus. Enter submits a name
// being edited, Escape discards it; neither while an input method composes a character (keyCode 229 in Safari).
window.kvLibrary = (() => {
  "use strict";

  let refresh = () => {}; // draws the table again if it can be seen; the page draws it when it is opened

  const table = (element, trigger, watch) => {
    let lastSelector = null;
    let wasFocused = null; // the action and the row of the last element with data-focus
    refresh = () => element.offsetParent !== null && trigger("input");
    const send = (target, extra) => {
      const { act, id } = target.dataset;
      lastSelector = `[data-act="${act}"][data-id="${CSS.escape(id)}"]`;
      const name = target.parentElement.querySelector("input[type=text]")?.value;
      trigger({ reindex: "submit", ask: "expand" }[act] ?? "click", { act, id, name, ...extra });
    };
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-act]");
      if (button) send(button);
    });
    element.addEventListener("change", (event) => {
      if (event.target.matches("input[type=checkbox]")) send(event.target, { on: event.target.checked });
      if (event.target.matches("select")) send(event.target, { id: event.target.value });
    });
    element.addEventListener("keydown", (event) => {
      if (!event.target.matches("input[type=text]") || event.isComposing || event.keyCode === 229) return;
      if (event.key === "Enter") send(event.target);
      if (event.key === "Escape") {
        event.stopPropagation();
        trigger("click", { act: "keep", id: "" });
      }
    });
    watch("value", () => {
      const marked = element.querySelector("[data-focus]");
      const isNew = marked && `${marked.dataset.act} ${marked.dataset.id}` !== wasFocused;
      wasFocused = marked && `${marked.dataset.act} ${marked.dataset.id}`;
      const isLost = document.activeElement === document.body;
      const last = isLost && lastSelector && (element.querySelector(lastSelector) || element.querySelector("button"));
      const focused = isNew ? marked : last;
      if (focused) {
        focused.focus({ preventScroll: true });
        if (focused.matches("input[type=text]")) focused.select();
      }
      lastSelector = null;
      // A checkbox that was clicked no longer follows its attribute, nor does a changed select.
      for (const box of element.querySelectorAll("input[type=checkbox]")) box.checked = box.hasAttribute("checked");
      for (const select of element.querySelectorAll("select")) {
        select.value = select.querySelector("[selected]")?.value ?? "";
      }
      for (const mark of element.querySelectorAll(".kv-excerpt mark")) {
        const box = mark.closest(".kv-excerpt");
        box.scrollTop += mark.getBoundingClientRect().top - box.getBoundingClientRect().top - 48;
      }
    });
  };

  return { table, refresh: () => refresh() };
})();
