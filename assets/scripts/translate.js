// The language of the interface, chosen in this browser. The texts of the page are English; for another language, each
// is replaced by what the catalogue, assets/translations.json, has for it. Names, questions, answers and texts of
// documents are data: they are inside the elements of DATA and stay as they are, as does a text that is not found.
(() => {
  "use strict";
  const KEY = "kvscope-language";
  const LANGUAGES = ["en", "de", "zh"];
  const SELECT = "input[role=combobox][readonly]"; // its choices are texts of the interface, those of others are names
  const OF_NAMES = CSS.supports("selector(:has(*))") ? `:not(:has(${SELECT}))` : ""; // old browsers: all dropdowns
  const NAMES = `.wrap${OF_NAMES} [role=listbox], .token, .file-name`; // the last one while a file uploads
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

  // Numbers of a text are {} in its key, either alone or with their units.
  const NUMBER = /\d[\d.,]*\d|\d/g;
  const QUANTITY = /<?(?:\d[\d.,]*\d|\d)(?: (?:ms|s|%|B|[KMG]iB)(?:\/s)?(?![\p{L}\d]))?/gu;
  const SENTENCES = /(?<=[.!?])( )/;
  const PARTS = /( · |: |; |, | \(|\)\.?)/;
  const CHINESE = { " ": "", ": ": "：", "; ": "；", ", ": "，", " (": "（", ")": "）", ").": "）。" };
  const SEPARATORS = language === "zh" ? CHINESE : {};
  const LETTER = /[A-Za-z]/;
  const NAMED = /(?:[\p{L}_][-.]?|BY-SA )$/u; // before a number of a name, such as SmolLM2-1.7B
  const ENGLISH_NUMBER = /^<?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?= |$)/;
  const SIGNS = /^[\s<>~≈±+−–\-/()%×·]*$/; // around the numbers of a text without words
  let texts = new Map(); // translation by key
  let patterns = []; // regular expression and translation of each key that has {*}, which stands for a name
  let sentences = []; // those of whole sentences
  const found = new Map(); // translations of the texts seen so far, null for those without

  const toPattern = ([key, translation]) => {
    const literal = (part) => part.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    const wildcards = { "{}": `(${QUANTITY.source})`, "{*}": "(.+?)" };
    const source = key.split(/(\{\*?\})/).map((part) => wildcards[part] ?? literal(part));
    const regex = new RegExp(`^${source.join("")}$`, "u");
    return { regex, kinds: key.match(/\{\*?\}/g), isSentence: key.endsWith("."), translation };
  };

  // German has 1.024 for 1,024 and 1,5 for 1.5; numbers of names and versions stay.
  const localize = (number, index, text) => {
    if (language !== "de" || !ENGLISH_NUMBER.test(number) || NAMED.test(text.slice(0, index))) return number;
    return number.replace(/[.,]/g, (sign) => (sign === "." ? "," : "."));
  };
  const localizeAll = (text) => text.replace(QUANTITY, localize);

  // {} and {*} are the values in their order, {2} is the second one.
  const fill = (translation, values) => {
    let next = 0;
    return translation.replace(/\{(\d*|\*)\}/g, (_, which) => values[Number(which) ? which - 1 : next++]);
  };

  const lookUp = (text) => {
    for (const kind of [NUMBER, QUANTITY]) {
      const values = [];
      const key = text.replace(kind, (value, index) => {
        values.push(localize(value, index, text));
        return "{}";
      });
      const translation = texts.get(key);
      if (translation !== undefined) return fill(translation, values);
    }
    return null;
  };

  const match = (text, candidates = patterns) => {
    for (const { regex, kinds, translation } of candidates) {
      const values = regex.exec(text)?.slice(1);
      if (values) {
        const toLocal = (value, index) => (kinds[index] === "{}" ? localize(value, 0, value) : value);
        return fill(translation, values.map(toLocal));
      }
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

  // A name in a sentence can have separators: "Report (1).pdf is empty." is no text in parts.
  const matchSentence = (text) => (text.endsWith(".") ? match(text, sentences) : null);
  const translatePart = (text) =>
    LETTER.test(text.replace(QUANTITY, "")) ? (lookUp(text) ?? match(text)) : localizeAll(text);
  const translateSentence = (text) =>
    lookUp(text) ?? matchSentence(text) ?? translateParts(text, PARTS, translatePart) ?? match(text);
  const translateWhole = (text) => {
    if (!SIGNS.test(text.replace(QUANTITY, ""))) {
      return lookUp(text) ?? translateParts(text, SENTENCES, translateSentence) ?? translateSentence(text);
    }
    const localized = localizeAll(text);
    return localized === text ? null : localized;
  };

  // Part of a sentence around an element has its spaces in the key if the translation depends on them.
  const translate = (raw) => {
    if (raw.length > MAX_CHARS || !(LETTER.test(raw) || /\d[.,]\d/.test(raw))) return null;
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

  // Citations are buttons of the interface, in answers, which are data.
  const CITATION = ".kv-cite";
  const visitCitations = (root) => {
    if (root.nodeType !== Node.ELEMENT_NODE) return;
    if (root.matches(CITATION)) translateAttribute(root, "aria-label");
    root.querySelectorAll(CITATION).forEach((mark) => translateAttribute(mark, "aria-label"));
  };

  const visit = (root) => {
    visitCitations(root);
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
      else if (!isInData(owner) || target.matches(CITATION)) translateAttribute(target, attributeName);
    }
    translateChosenSoon();
  };

  // Figures are translated before plotly measures their texts. The boxes of the cache's tree are named as documents are.
  // A value that plotly fills in, such as %{x:.0f}, is a number meanwhile.
  const VALUE = /%\{[^}]*\}/g;
  const translateLine = (line) => {
    const values = [];
    const text = line.replace(VALUE, (value) => String(900 + values.push(value)));
    return (translate(text) ?? text).replace(/9\d\d/g, (number) => values[number - 901] ?? number);
  };
  const translateLabels = (label) => {
    if (Array.isArray(label)) return label.map(translateLabels);
    return typeof label === "string" ? label.split(/(<br>|<extra>)/).map(translateLine).join("") : label;
  };
  const translateFields = (owner, ...names) => {
    for (const name of names) if (owner?.[name] !== undefined) owner[name] = translateLabels(owner[name]);
  };
  const translateFigure = (traces, layout) => {
    if (traces.some(({ type }) => type === "icicle")) return;
    traces.forEach((trace) => translateFields(trace, "name", "text", "hovertext", "hovertemplate", "y"));
    for (const axis of [layout.xaxis, layout.yaxis]) {
      translateFields(axis, "ticktext", "tickvals");
      translateFields(axis?.title, "text");
    }
    layout.annotations?.forEach((annotation) => translateFields(annotation, "text"));
    if (language === "de") layout.separators = ",.";
  };

  // Gradio loads plotly with the first figure; plotly sets window.Plotly.
  let plotly;
  Object.defineProperty(window, "Plotly", {
    configurable: true,
    get: () => plotly,
    set: (loaded) => {
      plotly = loaded;
      const { react } = loaded;
      loaded.react = (element, traces, layout, config) => {
        translateFigure(traces, layout);
        return react(element, traces, layout, config);
      };
    },
  });

  const fetchTexts = async () => {
    const response = await fetch(`translations/${language}.json`);
    return response.ok ? response.json() : null;
  };

  const pageIsComplete = () =>
    new Promise((resolve) => {
      if (document.readyState !== "loading") resolve();
      else document.addEventListener("DOMContentLoaded", resolve, { once: true });
    });

  const start = async () => {
    const catalogue = await fetchTexts().catch(() => null); // the page itself reports a lost connection
    if (catalogue === null) return; // it stays English
    const entries = Object.entries(catalogue);
    const length = ([key]) => key.replace(/\{\*?\}/g, "").length;
    texts = new Map(entries.filter(([key]) => !key.includes("{*}")));
    const named = entries.filter(([key]) => key.includes("{*}"));
    patterns = named.sort((one, other) => length(other) - length(one)).map(toPattern); // the most specific first
    sentences = patterns.filter(({ isSentence }) => isSentence);
    for (const [name, text] of Object.entries(IN_STYLES)) {
      document.documentElement.style.setProperty(name, JSON.stringify(translate(text) ?? text));
    }
    await pageIsComplete();
    document.documentElement.lang = language;
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
  start();
})();
