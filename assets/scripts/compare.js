// Escape stops a comparison that can be seen to run; its progress is read out as it changes.
(() => {
  "use strict";
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    const stop = document.querySelector("#compare-stop");
    if (stop && stop.offsetParent !== null) stop.click();
  });
  const watcher = new MutationObserver(() => {
    const progress = document.querySelector("#compare-progress");
    if (!progress) return;
    progress.setAttribute("aria-live", "polite");
    watcher.disconnect();
  });
  watcher.observe(document.documentElement, { childList: true, subtree: true });
})();
