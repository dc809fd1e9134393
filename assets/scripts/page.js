// The end of a login session, keyboard shortcuts, the list of documents, its panel on phones, and labels for screen
// readers that Gradio lacks.
(() => {
  "use strict";
  const question = () => document.querySelector("#question textarea, #question input");
  const isVisible = (element) => element && element.offsetParent !== null;

  const STOP_BUTTONS = ["#stop", "#inspect-stop", "#inspect-answer-stop", "#compare-stop", "#demo-stop"];

  // Before the page is left or reloaded, Gradio aborts its event stream and then reports "Connection errored out" for
  // every event that waits for a result. The browser ends the stream by itself, so this abort is not passed on.
  let isLeaving = false;
  window.addEventListener("beforeunload", () => (isLeaving = true));
  window.addEventListener("pageshow", () => (isLeaving = false));
  const unlessLeaving = (signal) => {
    const own = new AbortController();
    // Gradio's listener runs before the one above, hence the timeout.
    signal.addEventListener("abort", () => setTimeout(() => isLeaving || own.abort()));
    return own.signal;
  };

  // When the login session has ended, the login page replaces this one.
  const send = window.fetch;
  window.fetch = async (resource, options) => {
    const isStream = resource instanceof Request && !options;
    const response = await send(resource, isStream ? { signal: unlessLeaving(resource.signal) } : options);
    if (response.status === 401) window.location.reload();
    return response;
  };

  // Presses the first button that is visible. Those of a tab are created when it is first opened, so retry.
  window.kvscopePress = (selector, tries = 100) => {
    const button = [...document.querySelectorAll(selector)].find(isVisible);
    if (button) button.click();
    else if (tries) setTimeout(() => window.kvscopePress(selector, tries - 1), 50);
  };

  // A click on a button of the list of documents becomes an event with its action and the document's id. If the button
  // is gone after that, the focus moves to the one that keeps a document that was to be deleted, or to the first one.
  const connectList = (element, trigger, watch) => {
    let wasPressed = false;
    element.addEventListener("click", (event) => {
      const button = event.target.closest("button[data-act]");
      wasPressed = button !== null;
      if (button) trigger("click", { act: button.dataset.act, id: button.dataset.id });
    });
    watch("value", () => {
      if (!wasPressed || document.activeElement !== document.body) return;
      (element.querySelector("[data-act=keep]") ?? element.querySelector("button"))?.focus({ preventScroll: true });
      wasPressed = false;
    });
  };

  // The progress of files is redrawn many times a second, so a click might never complete: cancelling reacts to
  // pointerdown. A click with detail 0 comes from the keyboard.
  const connectProgress = (element, trigger) => {
    const press = (event) => {
      const button = event.target.closest("button[data-act=cancel]");
      if (button && (event.type !== "click" || event.detail === 0)) trigger("click", { place: button.dataset.id });
    };
    element.addEventListener("pointerdown", press);
    element.addEventListener("click", press);
    element.addEventListener("click", (event) => event.target.closest("[data-act=dismiss]")?.closest("li").remove());
  };
  window.kvscopeDocuments = { connectList, connectProgress };

  // Escape closes an open panel, or else stops the work of the visible page. Gradio closes dropdowns before the event
  // reaches the document, so they are checked in the capture phase.
  let handled = false;
  window.addEventListener(
    "keydown",
    (event) => {
      const isDropdown = event.target.matches?.('input[aria-expanded="true"]');
      handled = isDropdown || document.querySelector('dialog[open], [aria-modal="true"]') !== null;
    },
    true,
  );
  const close = (target) => {
    const form = target.closest("#chatbar form");
    const panel = document.querySelector("#drawer [data-close]");
    if (form) {
      form.reset();
      form.hidden = true;
      document.querySelector('#chatbar [data-act="rename"]')?.focus();
      return true;
    }
    if (!isVisible(panel)) return false;
    panel.click();
    return true;
  };

  document.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const writing = event.target.matches("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      question()?.focus();
      question()?.select();
    }
    if (event.key === "Escape" && !handled && !close(event.target)) {
      STOP_BUTTONS.map((name) => document.querySelector(name)).find(isVisible)?.click();
    }
  });

  // Stop replaces the button that starts work, and is replaced by it again. If the one that is gone had the focus, the
  // other one gets it.
  const RUN_BUTTONS = ["#ask", "#inspect-go", "#inspect-apply", "#compare-run"];
  const PAIRED = [...RUN_BUTTONS, ...STOP_BUTTONS].join();
  let focusedRow = null; // that of the paired button with the focus
  document.addEventListener("focusin", (event) => {
    focusedRow = event.target.matches(PAIRED) ? event.target.parentElement : null;
  });
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(PAIRED)) focusedRow = null;
  });
  new MutationObserver(() => {
    if (focusedRow === null || document.activeElement !== document.body) return;
    [...focusedRow.querySelectorAll(PAIRED)].find(isVisible)?.focus({ preventScroll: true });
  }).observe(document.documentElement, { childList: true, subtree: true, attributes: true, attributeFilter: ["class"] });

  // Gradio submits on Shift+Enter too; here it inserts a line break.
  for (const kind of ["keydown", "keypress"]) {
    window.addEventListener(
      kind,
      (event) => {
        if (event.key === "Enter" && event.shiftKey && event.target === question()) event.stopImmediatePropagation();
      },
      true,
    );
  }

  document.addEventListener("click", (event) => {
    const toggle = event.target.closest("[data-opens]");
    if (!toggle) return;
    const open = document.querySelector("#shell").classList.toggle(toggle.dataset.opens);
    toggle.setAttribute("aria-expanded", String(open));
  });

  const label = () => {
    const reply = document.querySelector("#reply");
    if (!reply || !question()) return false;
    reply.setAttribute("aria-live", "polite");
    question().setAttribute("aria-label", "Question");
    document.querySelector("#progress")?.setAttribute("aria-live", "polite");
    return true;
  };
  const watcher = new MutationObserver(() => label() && watcher.disconnect());
  watcher.observe(document.documentElement, { childList: true, subtree: true });
})();
