// The keyboard, the documents panel on a phone, and what a screen reader needs that Gradio does not say.
(() => {
  "use strict";
  const question = () => document.querySelector("#question textarea, #question input");
  const shown = (element) => element && element.offsetParent !== null;

  const STOPS = ["#stop", "#inspect-stop", "#inspect-halt", "#compare-stop"];

  // A tab that was never open has no button yet.
  window.kvscopePress = (selector, tries = 100) => {
    const button = document.querySelector(selector);
    if (shown(button)) button.click();
    else if (tries) setTimeout(() => window.kvscopePress(selector, tries - 1), 50);
  };

  // Escape closes what is open, and only where nothing is, it stops the work of the page that can be seen. Gradio has
  // closed a list by the time the event arrives at the document, so that is looked at before.
  let taken = false;
  window.addEventListener(
    "keydown",
    (event) => {
      const list = event.target.matches?.('input[aria-expanded="true"]');
      taken = list || document.querySelector('dialog[open], [aria-modal="true"]') !== null;
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
    if (!shown(panel)) return false;
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
    if (event.key === "Escape" && !taken && !close(event.target)) {
      STOPS.map((name) => document.querySelector(name)).find(shown)?.click();
    }
  });

  // Gradio sends on Shift+Enter too; here it starts a new line.
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
