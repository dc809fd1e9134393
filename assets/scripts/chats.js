// Chats live in this browser, one key a chat, so that two tabs never write over each other's.
window.kvscopeChats = (() => {
  "use strict";
  const KEY = "kvscope-chat-";
  const HERE = "kvscope-here"; // which chat this tab shows, kept over a refresh
  const SURE_MS = 4000;

  const read = (key) => {
    try {
      return JSON.parse(localStorage.getItem(key));
    } catch {
      return null;
    }
  };
  const keys = () => Object.keys(localStorage).filter((key) => key.startsWith(KEY));
  const all = () => {
    const chats = keys().map(read).filter((chat) => chat && Array.isArray(chat.turns));
    return chats.sort((one, other) => other.at - one.at);
  };
  const name = (chat) => chat.title || chat.turns[0]?.question?.slice(0, 60) || "";
  const listing = () => all().map((chat) => ({ id: chat.id, title: name(chat), at: chat.at, turns: chat.turns.length }));

  const write = (chat) => {
    for (;;) {
      try {
        localStorage.setItem(KEY + chat.id, JSON.stringify(chat));
        return;
      } catch {
        const oldest = all().filter((other) => other.id !== chat.id).pop(); // the browser's room is used up
        if (!oldest) return;
        localStorage.removeItem(KEY + oldest.id);
      }
    }
  };

  const download = ({ name: file, kind, text }) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
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
    load: () => ({ chat: read(KEY + sessionStorage.getItem(HERE)), listing: listing() }),

    // What the server sends: a chat to keep, or a file to download. Returns what it wants to know then.
    take: (sent) => {
      if (sent?.chat) {
        sessionStorage.setItem(HERE, sent.chat.id);
        if (sent.chat.turns.length) write(sent.chat);
      }
      if (sent?.file) download(sent.file);
      return { listing: listing() };
    },

    act: (button, bar) => {
      const { act, id } = button.dataset;
      if (act === "rename") {
        const form = bar.querySelector("form");
        form.hidden = !form.hidden;
        if (!form.hidden) form.elements.title.select();
        return null;
      }
      if (act === "delete") {
        if (!sure(button)) return null;
        localStorage.removeItem(KEY + id);
        sessionStorage.removeItem(HERE);
      }
      if (act === "new") sessionStorage.removeItem(HERE);
      if (act === "open") sessionStorage.setItem(HERE, id);
      return { act, listing: listing(), chat: act === "open" ? read(KEY + id) : null };
    },

    rename: (form) => {
      const chat = read(KEY + form.dataset.id);
      if (chat) write({ ...chat, title: form.elements.title.value.trim() });
      return { act: "open", listing: listing(), chat: read(KEY + form.dataset.id) };
    },
  };
})();
