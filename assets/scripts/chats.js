// Chats are stored in this browser, one localStorage key per chat. If two tabs show the same chat, the first to write
// keeps it; the other notices the change and continues as a copy under a new key. No tab overwrites another's chat.
window.kvscopeChats = (() => {
  "use strict";
  const KEY = "kvscope-chat-";
  const HERE = "kvscope-here"; // id of the chat this tab shows; survives a reload
  const QUESTION = "kvscope-question"; // what the question box has at a reload, such as after a restart of the server
  const CONFIRM_MS = 4000;

  let seen = {}; // id and JSON of this tab's chat, as last read or written
  let offered = {}; // the same for a chat that the server was asked to open
  let problem = null; // result of the last write if it was not as requested: "full", "off" or "copied"

  // With storage disabled, even naming it throws; stored values may be invalid.
  const attempt = (action, fallback = null) => {
    try {
      return action();
    } catch {
      return fallback;
    }
  };
  const text = (id) => attempt(() => localStorage.getItem(KEY + id));
  const isValid = (chat, id) =>
    chat.id === id &&
    typeof (chat.title ?? "") === "string" &&
    Number.isFinite(chat.at) &&
    chat.turns.every((turn) => typeof turn.question === "string");
  const read = (id) =>
    attempt(() => {
      const chat = JSON.parse(text(id));
      return isValid(chat, id) ? chat : null;
    });
  const ids = () => attempt(() => Object.keys(localStorage), []).filter((key) => key.startsWith(KEY));
  const all = () => ids().map((key) => read(key.slice(KEY.length))).filter((chat) => chat);
  const visible = (chat) => chat.turns.filter((turn) => !turn.replaced);
  const name = (chat) => chat.title || (visible(chat)[0] || chat.turns[0])?.question.slice(0, 60) || "";
  const listing = () =>
    all()
      .map((chat) => {
        const { id, at, pinned = false, archived = false } = chat;
        return { id, title: name(chat), at, turns: visible(chat).length, pinned, archived };
      })
      .sort((one, other) => other.pinned - one.pinned || other.at - one.at);

  const newId = () => {
    const bytes = crypto.getRandomValues(new Uint8Array(8));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  // Stores a chat and returns its id, which is new if it became a copy. A chat that does not fit is not stored.
  const store = (chat) => {
    if (!chat.turns.length) return chat.id;
    const stored = text(chat.id);
    const changed = stored !== null && !(seen.id === chat.id && seen.text === stored);
    const id = changed ? newId() : chat.id;
    const written = JSON.stringify({ ...chat, id });
    try {
      localStorage.setItem(KEY + id, written);
    } catch (error) {
      problem = error.name === "QuotaExceededError" ? "full" : "off";
      return chat.id;
    }
    seen = { id, text: written };
    problem = changed ? "copied" : null;
    return id;
  };

  const download = ({ name: file, kind, text, base64 }) => {
    const link = document.createElement("a");
    const content = text ?? Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
    link.href = URL.createObjectURL(new Blob([content], { type: kind }));
    link.download = file;
    link.click();
    URL.revokeObjectURL(link.href);
  };

  // Leaves the chats in the menu that have the words in their name, a question or an answer.
  const search = (menu, words) => {
    let shown = 0;
    for (const fold of menu.querySelectorAll("details")) fold.open = words !== "";
    for (const button of menu.querySelectorAll("button[data-id]")) {
      const chat = read(button.dataset.id);
      const parts = chat ? [name(chat), ...chat.turns.flatMap((turn) => [turn.question, turn.text])] : [];
      const item = button.closest("li");
      item.hidden = !parts.join("\n").toLowerCase().includes(words.toLowerCase());
      shown += item.hidden ? 0 : 1;
    }
    menu.querySelector("[role=status]").textContent = shown ? "" : "No chat has these words.";
  };

  // A second click within a few seconds confirms.
  const isConfirmed = (button) => {
    if (button.dataset.confirming) return true;
    const label = button.textContent;
    button.dataset.confirming = "yes";
    button.textContent = "Delete chat?";
    setTimeout(() => {
      delete button.dataset.confirming;
      button.textContent = label;
    }, CONFIRM_MS);
    return false;
  };

  // Returns what the server needs for a click on a button; null if the browser handles it alone.
  const actionOf = (button, bar) => {
    const { act, id } = button.dataset;
    if (act === "rename") {
      const form = bar.querySelector("form");
      form.hidden = !form.hidden;
      if (!form.hidden) form.elements.title.select();
      return null;
    }
    if (act === "delete" && !isConfirmed(button)) return null;
    offered = act === "open" ? { id, text: text(id) } : {};
    return { act, chat: act === "open" ? read(id) : null };
  };

  const box = () => document.querySelector("#question textarea");
  let isLoggingOut = false;
  document.addEventListener("submit", ({ target }) => (isLoggingOut = target.matches('[action="/logout"]')));
  window.addEventListener("pagehide", () => {
    if (box() && !isLoggingOut) attempt(() => sessionStorage.setItem(QUESTION, box().value));
  });
  const restoreQuestion = () => {
    const question = attempt(() => sessionStorage.getItem(QUESTION));
    attempt(() => sessionStorage.removeItem(QUESTION));
    if (!question || !box() || box().value) return;
    box().value = question;
    box().dispatchEvent(new Event("input", { bubbles: true }));
  };

  return {
    load: () => {
      const id = attempt(() => sessionStorage.getItem(HERE));
      seen = { id, text: text(id) };
      restoreQuestion();
      return { chat: read(id), listing: listing() };
    },

    // Handles a message of the server: a chat to store or to delete, the chat this tab shows now, or a file to
    // download. Returns the list of chats, the id and the result of the write.
    handle: (sent) => {
      let id = sent?.here;
      if (id !== undefined) {
        seen = offered.id === id ? offered : {};
        problem = null;
      }
      if (sent?.deleted !== undefined) attempt(() => localStorage.removeItem(KEY + sent.deleted));
      if (sent?.chat) id = store(sent.chat);
      if (id !== undefined) attempt(() => sessionStorage.setItem(HERE, id));
      if (sent?.file) download(sent.file);
      return { listing: listing(), id, problem };
    },

    // Turns clicks and the rename form of the chat bar into Gradio events, with what only the browser knows.
    connect: (bar, trigger) => {
      bar.addEventListener("click", (event) => {
        const button = event.target.closest("button[data-act]");
        const action = button && actionOf(button, bar);
        if (action) trigger("click", action);
      });
      bar.addEventListener("input", ({ target }) => {
        if (target.type === "search") search(target.parentElement, target.value.trim());
      });
      bar.addEventListener("submit", (event) => {
        event.preventDefault();
        event.target.hidden = true;
        trigger("click", { act: "rename", title: event.target.elements.title.value.trim() });
      });
    },
  };
})();
