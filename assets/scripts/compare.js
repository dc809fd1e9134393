// Screen readers announce the progress of a comparison.
(() => {
  "use strict";
  const watcher = new MutationObserver(() => {
    const progress = document.querySelector("#compare-progress");
    if (!progress) return;
    progress.setAttribute("aria-live", "polite");
    watcher.disconnect();
  });
  watcher.observe(document.documentElement, { childList: true, subtree: true });
})();
