// What the others share.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const make = (tag, properties) => Object.assign(document.createElement(tag), properties);

const button = (parent, text, label, action) => {
  const made = make("button", { type: "button", className: "tool", textContent: text });
  made.setAttribute("aria-label", label);
  made.addEventListener("click", () => action(made));
  parent.append(made);
  return made;
};

// Library and data stand in the page as compressed text.
const unpack = async (id) => {
  const letters = document.getElementById(id).textContent;
  const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
};
let page = { config: {}, figures: {}, texts: [], parts: [], files: [] };
let library = null;
const loadLibrary = () => {
  library ??= unpack("library").then((text) => { document.head.append(make("script", { textContent: text })); });
  return library;
};
