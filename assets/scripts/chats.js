// Chats live in this browser, one key a chat. Two tabs may show the same chat: the first to write keeps it, the other
// finds that it has changed and goes on under a key of its own. So no tab writes over what another has written.
window.kvscopeChats = (() => {
  "use strict";
  const KEY = "kvscope-chat-";
  const HERE = "kvscope-here"; // which chat this tab shows, kept over a refresh
  const SURE_MS = 4000;

  let seen = {}; // id and text of this tab's chat, as it last read or wrote them
  let offered = {}; // the same of a chat that the server was asked to open
  let trouble = null; // why the last write was not what was asked for: "full", "off" or "copied"

  // Storage may be switched off, and then even its name throws; what lies in it may be anything.
  const attempt = (deed, otherwise = null) => {
    try {
      return deed();
    } catch {
      return otherwise;
    }
  };
  const text = (id) => attempt(() => localStorage.getItem(KEY + id));
  const whole = (chat, id) =>
    chat.id === id &&
    typeof (chat.title ?? "") === "string" &&
    Number.isFinite(chat.at) &&
    chat.turns.every((turn) => typeof turn.question === "string");
  const read = (id) =>
    attempt(() => {
      const chat = JSON.parse(text(id));
      return whole(chat, id) ? chat : null;
    });
  const ids = () => attempt(() => Object.keys(localStorage), []).filter((key) => key.startsWith(KEY));
  const all = () => ids().map((key) => read(key.slice(KEY.length))).filter((chat) => chat);
  const name = (chat) => chat.title || chat.turns[0]?.question.slice(0, 60) || "";
  const listing = () =>
    all()
      .sort((one, other) => other.at - one.at)
      .map((chat) => ({ id: chat.id, title: name(chat), at: chat.at, turns: chat.turns.length }));

  const fresh = () => {
    const bytes = crypto.getRandomValues(new Uint8Array(8));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  };

  // Returns the id that the chat has from now on. What does not fit is not kept; no other chat makes room for it.
  const keep = (chat) => {
    if (!chat.turns.length) return chat.id;
    const stored = text(chat.id);
    const changed = stored !== null && !(seen.id === chat.id && seen.text === stored);
    const id = changed ? fresh() : chat.id;
    const written = JSON.stringify({ ...chat, id });
    try {
      localStorage.setItem(KEY + id, written);
    } catch (error) {
      trouble = error.name === "QuotaExceededError" ? "full" : "off";
      return chat.id;
    }
    seen = { id, text: written };
    trouble = changed ? "copied" : null;
    return id;
  };

  const download = ({ name: file, kind, text: content }) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type: kind }));
    link.download = file;
    link.click();
    URL.revokeObjectURL(link.href);
  };

  // A second click within a few seconds means yes.
  const sure = (button) => {
    if (button.dataset.sure) return true;
    const label = button.textContent;
    button.dataset.sure = "yes";
    button.textContent = "Really delete?";
    setTimeout(() => {
      delete button.dataset.sure;
      button.textContent = label;
    }, SURE_MS);
    return false;
  };

  return {
    load: () => {
      const id = attempt(() => sessionStorage.getItem(HERE));
      seen = { id, text: text(id) };
      return { chat: read(id), listing: listing() };
    },

    // What the server sends: a chat to keep or to forget, which one this tab shows now, or a file to download. Nothing
    // is written before the server has agreed. Returns what it wants to know then.
    take: (sent) => {
      let id = sent?.here;
      if (id !== undefined) {
        seen = offered.id === id ? offered : {};
        trouble = null;
      }
      if (sent?.forget !== undefined) attempt(() => localStorage.removeItem(KEY + sent.forget));
      if (sent?.chat) id = keep(sent.chat);
      if (id !== undefined) attempt(() => sessionStorage.setItem(HERE, id));
      if (sent?.file) download(sent.file);
      return { listing: listing(), id, trouble };
    },

    act: (button, bar) => {
      const { act, id } = button.dataset;
      if (act === "rename") {
        const form = bar.querySelector("form");
        form.hidden = !form.hidden;
        if (!form.hidden) form.elements.title.select();
        return null;
      }
      if (act === "delete" && !sure(button)) return null;
      offered = act === "open" ? { id, text: text(id) } : {};
      return { act, chat: act === "open" ? read(id) : null };
    },

    rename: (form) => {
      form.hidden = true;
      return { act: "rename", title: form.elements.title.value.trim() };
    },
  };
})();
