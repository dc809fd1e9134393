// The language of the interface, chosen in this browser. The texts of the page are English; for another language, each
// is replaced by what the catalogue, assets/translations.json, has for it. Names, questions, answers and texts of
// documents are data: they are inside the elements of DATA and stay as they are, as does a text that is not found.
(() => {
  "use strict";
  const KEY = "kvscope-language";
  const LANGUAGES = ["en", "de", "zh"];
  const SELECT = "input[role=combobox][readonly]"; // its choices are texts of the interface, those of others are names
  const NAMES = `.wrap:not(:has(${SELECT})) [role=listbox], .token`;
  const DATA = `bdi, [translate=no], textarea, pre, code, script, style, .js-plotly-plot, .kv-sample, ${NAMES}`;
  const ATTRIBUTES = ["title", "placeholder", "aria-label", "alt"];
  const IN_STYLES = { "--kv-all-documents": "All documents", "--kv-drop-files": "Drop files here, or click to choose" };
  const MAX_CHARS = 1500; // of a text of the interface
  const MAX_FOUND = 4000;

  const read = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // storage is disabled: the browser's language is used
    }
  };
  const choice = LANGUAGES.includes(read()) ? read() : "browser";
  const preferred = () =>
    navigator.languages.map((tag) => tag.toLowerCase().split("-")[0]).find((tag) => LANGUAGES.includes(tag)) ?? "en";
  const language = choice === "browser" ? preferred() : choice;

  const choose = (wanted) => {
    try {
      if (wanted === "browser") localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, wanted);
    } catch {
      return; // see above
    }
    window.location.reload();
  };

  // The buttons on the Settings page.
  window.kvLanguage = {
    connect: (group) => {
      group.querySelectorAll("button").forEach((button) => {
        button.setAttribute("aria-checked", String(button.dataset.language === choice));
      });
      group.addEventListener("click", (event) => {
        const button = event.target.closest("button[data-language]");
        if (button && button.dataset.language !== choice) choose(button.dataset.language);
      });
    },
  };
  if (language === "en") return;
  document.documentElement.lang = language;

  // Numbers of a text are {} in its key, either alone or with their units.
  const NUMBER = /\d[\d.,]*\d|\d/g;
  const QUANTITY = /<?(?:\d[\d.,]*\d|\d)(?: (?:ms|s|%|B|[KMG]iB)(?:\/s)?(?![\p{L}\d]))?/gu;
  const SENTENCES = /(?<=[.!?])( )/;
  const PARTS = /( · |: |; |, | \(|\)\.?)/;
  const CHINESE = { " ": "", ": ": "：", "; ": "；", ", ": "，", " (": "（", ")": "）", ").": "）。" };
  const SEPARATORS = language === "zh" ? CHINESE : {};
  let texts = new Map(); // translation by key
  let patterns = []; // regular expression and translation of each key that has {*}, which stands for a name
  const found = new Map(); // translations of the texts seen so far, null for those without

  const toPattern = ([key, translation]) => {
    const literal = (part) => part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    const wildcards = { "{}": `(${QUANTITY.source})`, "{*}": "(.+?)" };
    const source = key.split(/(\{\*?\})/).map((part) => wildcards[part] ?? literal(part));
    return { regex: new RegExp(`^${source.join("")}$`, "u"), translation };
  };

  // {} and {*} are the values in their order, {2} is the second one.
  const fill = (translation, values) => {
    let next = 0;
    return translation.replace(/\{(\d*|\*)\}/g, (_, which) => values[Number(which) ? which - 1 : next++]);
  };

  const lookUp = (text) => {
    for (const kind of [NUMBER, QUANTITY]) {
      const translation = texts.get(text.replace(kind, "{}"));
      if (translation !== undefined) return fill(translation, text.match(kind) ?? []);
    }
    return null;
  };

  const match = (text) => {
    for (const { regex, translation } of patterns) {
      const values = regex.exec(text);
      if (values) return fill(translation, values.slice(1));
    }
    return null;
  };

  // Translates a text in parts, if all of them are known.
  const translateParts = (text, separator, translate) => {
    const parts = text.split(separator);
    if (parts.length === 1) return null;
    const translated = parts.map((part, index) => (index % 2 ? (SEPARATORS[part] ?? part) : translate(part)));
    return translated.includes(null) ? null : translated.join("");
  };

  const translatePart = (text) => (/[A-Za-z]/.test(text.replace(QUANTITY, "")) ? (lookUp(text) ?? match(text)) : text);
  const translateSentence = (text) => lookUp(text) ?? translateParts(text, PARTS, translatePart) ?? match(text);
  const translateWhole = (text) =>
    lookUp(text) ?? translateParts(text, SENTENCES, translateSentence) ?? translateSentence(text);

  // Part of a sentence around an element has its spaces in the key if the translation depends on them.
  const translate = (raw) => {
    if (raw.length > MAX_CHARS || !/[A-Za-z]/.test(raw)) return null;
    if (!found.has(raw)) {
      if (found.size > MAX_FOUND) found.clear();
      const text = raw.replace(/\s+/g, " ");
      const core = text.trim();
      let translation = text === core ? null : lookUp(text);
      if (translation === null) {
        translation = translateWhole(core);
        if (translation !== null) translation = text.replace(core, () => translation);
      }
      if (raw.includes("\u00a0")) translation = translation?.replace(/(\d) (?=[\p{L}%])/gu, "$1\u00a0") ?? null;
      found.set(raw, translation);
    }
    return found.get(raw);
  };

  const written = new WeakMap(); // what each text node, and each attribute of an element, was given

  const translateText = (node) => {
    const text = node.nodeValue;
    if (written.get(node) === text) return;
    const translation = translate(text);
    if (translation === null) return;
    written.set(node, translation);
    node.nodeValue = translation;
  };

  const translateAttribute = (element, name) => {
    const text = element.getAttribute(name);
    if (text === null || (name === "title" && "names" in element.dataset)) return;
    const values = written.get(element) ?? {};
    if (values[name] === text) return;
    const translation = translate(text);
    if (translation === null) return;
    written.set(element, { ...values, [name]: translation });
    element.setAttribute(name, translation);
  };

  // What a dropdown shows as chosen; Gradio keeps its own copy. No record tells of it, so look once per frame.
  let isWaiting = false;
  const translateChosen = () => {
    isWaiting = false;
    for (const input of document.querySelectorAll(SELECT)) {
      const translation = written.get(input)?.value === input.value ? null : translate(input.value);
      if (translation === null) continue;
      written.set(input, { ...written.get(input), value: translation });
      input.value = translation;
    }
  };
  const translateChosenSoon = () => {
    if (!isWaiting) requestAnimationFrame(translateChosen);
    isWaiting = true;
  };

  // A text area has a placeholder of the interface around a text of the user.
  const isData = (element) => element.matches(DATA) && !element.matches("textarea");
  const isInData = (element) => element !== null && element.closest(DATA) !== null;

  const visitElement = (element) => ATTRIBUTES.forEach((name) => translateAttribute(element, name));

  const accept = (node) =>
    node.nodeType === Node.ELEMENT_NODE && isData(node) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT;

  const visit = (root) => {
    if (isInData(root.parentElement)) return;
    if (root.nodeType === Node.TEXT_NODE) translateText(root);
    if (root.nodeType !== Node.ELEMENT_NODE || isData(root)) return;
    visitElement(root);
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, accept);
    while (walker.nextNode()) {
      const node = walker.currentNode;
      if (node.nodeType === Node.ELEMENT_NODE) visitElement(node);
      else if (!node.parentElement.matches("textarea")) translateText(node);
    }
  };

  const observe = (records) => {
    for (const { type, target, attributeName, addedNodes } of records) {
      const owner = type === "attributes" && target.matches("textarea") ? target.parentElement : target;
      if (type === "childList") addedNodes.forEach((node) => node.isConnected && visit(node));
      else if (type === "characterData") visit(target);
      else if (!isInData(owner)) translateAttribute(target, attributeName);
    }
    translateChosenSoon();
  };

  const start = async () => {
    const response = await fetch(`translations/${language}.json`);
    if (!response.ok) return;
    const entries = Object.entries(await response.json());
    const length = ([key]) => key.replace(/\{\*?\}/g, "").length;
    texts = new Map(entries.filter(([key]) => !key.includes("{*}")));
    const named = entries.filter(([key]) => key.includes("{*}"));
    patterns = named.sort((one, other) => length(other) - length(one)).map(toPattern); // the most specific first
    for (const [name, text] of Object.entries(IN_STYLES)) {
      document.documentElement.style.setProperty(name, JSON.stringify(translate(text) ?? text));
    }
    visit(document.body);
    translateChosenSoon();
    new MutationObserver(observe).observe(document.body, {
      subtree: true,
      childList: true,
      characterData: true,
      attributes: true,
      attributeFilter: ATTRIBUTES,
    });
  };
  start().catch(() => {}); // without a connection, which the page itself reports, it stays English
})();
