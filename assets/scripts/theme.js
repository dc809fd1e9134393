// The theme chosen in this browser: applied before the page is drawn, and again whenever Gradio changes it.
(() => {
  "use strict";
  const KEY = "kvscope-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is disabled: the choice lasts until the page is closed
    }
  };
  let choice = ["light", "dark"].includes(read()) ? read() : "system";

  const apply = () => {
    const dark = choice === "system" ? system.matches : choice === "dark";
    document.documentElement.style.colorScheme = dark ? "dark" : "light";
    if (document.body.classList.contains("dark") !== dark) document.body.classList.toggle("dark", dark);
  };
  apply();
  system.addEventListener("change", apply);
  new MutationObserver(apply).observe(document.body, { attributes: true, attributeFilter: ["class"] });

  const choose = (wanted) => {
    choice = wanted;
    try {
      if (wanted === "system") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, wanted);
    } catch {
      // see above
    }
    apply();
  };

  // The buttons on the Settings page.
  window.kvTheme = {
    connect: (group) => {
      const mark = () =>
        group.querySelectorAll("button").forEach((button) => {
          button.setAttribute("aria-checked", String(button.dataset.theme === choice));
        });
      group.addEventListener("click", (event) => {
        const button = event.target.closest("button[data-theme]");
        if (!button) return;
        choose(button.dataset.theme);
        mark();
      });
      mark();
    },
  };
})();
