// Clicks and scrolling inside the Ask page's HTML components, which Gradio renders anew with every update.
window.kvscopeAsk = (() => {
  "use strict";
  let refreshPreview = () => {};
  let opener = null; // the citation, or the button of a passage, that was clicked last
  document.addEventListener("click", (event) => {
    opener = event.target.closest?.("[data-act=select]") ?? opener;
  });

  const copy = (answer, button) => {
    const text = answer.querySelector(".kv-text").cloneNode(true);
    for (const cite of text.querySelectorAll(".kv-cite")) cite.textContent = `[${cite.textContent}]`;
    const show = (message) => () => {
      button.textContent = message;
    };
    const copied = navigator.clipboard?.writeText(text.textContent) ?? Promise.reject(); // missing without TLS
    copied.then(show("Copied"), show("Copying failed"));
  };

  // The citation may have been rendered anew since it was clicked.
  const findOpener = () => {
    const { id, rank } = opener.dataset;
    const again = `[data-act=select][data-id="${CSS.escape(id)}"][data-rank="${CSS.escape(rank)}"]`;
    return opener.isConnected ? opener : [...document.querySelectorAll(again)].find((button) => button.checkVisibility());
  };

  // Turns clicks on an answer's buttons and citations into Gradio events with the clicked passage.
  const connectAnswer = (element, trigger) => {
    element.addEventListener("click", (event) => {
      const button = event.target.closest("[data-act]");
      if (!button) return;
      const { act, id = "", rank = "", context = "" } = button.dataset;
      if (act === "copy") copy(element, button);
      else trigger(act, { id, rank, context });
    });
  };

  return {
    connectAnswer,

    // The preview of another ratio, which is computed again when the documents change, if there is one.
    connectPreview: (element, trigger) => {
      connectAnswer(element, trigger);
      refreshPreview = () => element.textContent.trim() && trigger("input");
    },
    refreshPreview: () => refreshPreview(),

    // Turns clicks on the buttons of a rating, and Enter in its box, into Gradio events with the text of the box.
    connectFeedback: (element, trigger) => {
      const send = (button) => {
        const { act, id } = button.dataset;
        trigger("click", { act, id, text: element.querySelector("input")?.value });
      };
      element.addEventListener("click", (event) => {
        const button = event.target.closest("[data-act]");
        if (button) send(button);
      });
      element.addEventListener("keydown", (event) => {
        const isComposing = event.isComposing || event.keyCode === 229; // an input method takes this Enter
        if (event.key === "Enter" && !isComposing && event.target.matches("input")) send(element.querySelector("[data-act=expected]"));
      });
    },

    // Marks the column of a chat that has a question, for the styles.
    markChat: (element) => {
      const mark = () => {
        const started = document.querySelector("#thread article, #reply article") !== null;
        element.closest("#main").classList.toggle("kv-in-chat", started);
      };
      new MutationObserver(mark).observe(element, { childList: true, subtree: true });
      mark();
    },

    // Brings the values of sliders into their limits, null for other inputs: while a number is typed it may be empty or
    // out of range, and Gradio reports that as an error.
    clamp: (values, limits) =>
      values.map((value, index) => {
        const [low, high] = limits[index] ?? [];
        return limits[index] ? Math.min(Math.max(value ?? low, low), high) : value;
      }),

    // Scrolls to a new answer when it begins.
    scrollToNew: (element) => {
      new MutationObserver(() => {
        if (element.querySelector(".kv-waiting")) element.closest("#reply").scrollIntoView({ block: "start" });
      }).observe(element, { childList: true, subtree: true });
    },

    // A card shows a few lines of its passage: scroll to the quoted sentence. If passages and quotes are the same as
    // before, only the marks have changed: keep the lines that the user has scrolled to.
    showQuotes: (element) => {
      let tops = [];
      let before = "";
      const texts = () => [...element.querySelectorAll(".kv-passage")];
      element.addEventListener("scroll", () => (tops = texts().map((text) => text.scrollTop)), true);
      new MutationObserver(() => {
        const shown = [...element.querySelectorAll(".kv-passage, .kv-quoted")].map((part) => part.textContent).join("");
        texts().forEach((text, index) => {
          const quote = text.querySelector(".kv-quoted");
          if (shown === before) text.scrollTop = tops[index] ?? 0;
          else if (quote) text.scrollTop += quote.getBoundingClientRect().top - text.getBoundingClientRect().top;
        });
        tops = texts().map((text) => text.scrollTop);
        before = shown;
      }).observe(element, { childList: true, subtree: true });
    },

    // Scrolls to the quote and focuses the panel, for the Esc key and screen readers. Closing returns the focus to the
    // citation that opened the panel, unless the focus has moved elsewhere.
    connectDrawer: (element, trigger) => {
      element.addEventListener("click", (event) => {
        if (event.target.closest("[data-close]")) trigger("clear");
        const zoom = event.target.closest("[data-zoom]");
        if (zoom) zoom.ariaPressed = String(zoom.closest("figure").classList.toggle("kv-zoomed"));
      });
      new MutationObserver(() => {
        const panel = element.querySelector("aside");
        if (!panel && opener && document.activeElement === document.body) findOpener()?.focus();
        panel?.focus({ preventScroll: true });
        const page = element.querySelector(".kv-original img");
        page?.addEventListener("error", () => page.closest("figure").remove());
        if (page) return;
        (element.querySelector(".kv-quoted") ?? element.querySelector("mark"))?.scrollIntoView({ block: "center" });
      }).observe(element, { childList: true, characterData: true, subtree: true });
    },
  };
})();
