// Light or dark, as this browser was told: applied before the first paint, and again whenever Gradio decides otherwise.
(() => {
  "use strict";
  const KEY = "kvscope-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is switched off: the choice then lasts as long as the page
    }
  };
  let choice = ["light", "dark"].includes(read()) ? read() : "system";

  const apply = () => {
    const dark = choice === "system" ? system.matches : choice === "dark";
    document.documentElement.style.colorScheme = dark ? "dark" : "light";
    if (document.body && document.body.classList.contains("dark") !== dark) document.body.classList.toggle("dark", dark);
  };
  const watch = () => {
    apply();
    new MutationObserver(apply).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  };
  apply();
  system.addEventListener("change", apply);
  if (document.body) watch();
  else
    new MutationObserver((_, waiting) => {
      if (!document.body) return;
      waiting.disconnect();
      watch();
    }).observe(document.documentElement, { childList: true });

  window.kvTheme = {
    chosen: () => choice,
    choose: (wanted) => {
      choice = wanted;
      try {
        if (wanted === "system") localStorage.removeItem(KEY);
        else localStorage.setItem(KEY, wanted);
      } catch {
        // see above
      }
      apply();
    },
  };
})();
