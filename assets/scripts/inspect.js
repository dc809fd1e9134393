// Escape stops what the Inspect page is doing, as it does on the Ask page.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const name of ["#inspect-stop", "#inspect-halt"]) {
    const stop = document.querySelector(name);
    if (stop && stop.offsetParent !== null) return stop.click();
  }
});
