// The first screen: replays the recorded run with its own times, and runs the clock of a live one.
window.kvscopeDemo = (() => {
  "use strict";
  const seconds = (ms) => `${(ms / 1000).toFixed(2)}\u00a0s`;

  // Every lane starts at zero at the same time; its bar grows to its length and its answer appears at its TTFT.
  const play = (demo) => {
    if (demo.classList.contains("kv-playing")) return;
    const lanes = [...demo.querySelectorAll(".kv-demo-lane")].map((lane) => {
      const [bar, clock] = [lane.querySelector("i"), lane.querySelector(".kv-clock")];
      return { lane, bar, clock, width: bar.style.width, text: clock.textContent, ttft: Number(lane.dataset.ttft) };
    });
    const longest = Math.max(...lanes.map((each) => each.ttft));
    demo.classList.add("kv-playing");
    for (const each of lanes) each.lane.classList.add("kv-demo-lane-running");
    const start = performance.now();
    const step = () => {
      if (!demo.isConnected) return;
      const now = performance.now() - start;
      for (const each of lanes) {
        const isDone = now >= each.ttft;
        each.bar.style.width = isDone ? each.width : `${(100 * now) / longest}%`;
        each.clock.textContent = isDone ? each.text : seconds(now);
        each.lane.classList.toggle("kv-demo-lane-running", !isDone);
      }
      if (now < longest) requestAnimationFrame(step);
      else demo.classList.remove("kv-playing");
    };
    requestAnimationFrame(step);
  };

  // The clock of the lane that runs now; every update of the page replaces the lanes.
  setInterval(() => {
    for (const lane of document.querySelectorAll(".kv-demo-lane[data-running]")) {
      lane.dataset.started ||= performance.now();
      lane.querySelector(".kv-clock").textContent = seconds(performance.now() - lane.dataset.started);
    }
  }, 100);

  return {
    connect: (element) => {
      element.addEventListener("click", (event) => {
        if (event.target.closest("[data-play]")) play(element.querySelector(".kv-demo"));
        if (!event.target.closest("[data-add]")) return;
        const documents = document.querySelector("#documents-toggle"); // phones show the uploads in a panel
        if (documents?.checkVisibility() && documents.getAttribute("aria-expanded") === "false") documents.click();
        document.querySelector("#upload input[type=file]")?.click();
      });
    },
  };
})();
