// Runs before anything else of the page: what goes wrong later is remembered.
window.wrong = [];
window.saved = [];
// A page that was broken on purpose says what is expected of it, and is left as soon as that is found.
wrong.push = (...texts) => {
  Array.prototype.push.apply(wrong, texts);
  const isExpected = (text) => window.expected && text.includes(window.expected);
  if (texts.some(isExpected)) parent.postMessage({ found: [...wrong], counts: {} }, "*");
};
addEventListener("error", (event) => wrong.push("script error: " + event.message));
addEventListener("unhandledrejection", (event) => wrong.push("script error: " + event.reason));
addEventListener("securitypolicyviolation", (event) => wrong.push("refused: " + event.blockedURI));
["error", "warn"].forEach((level) => {
  console[level] = (...words) => wrong.push("console: " + words.join(" "));
});
// Downloads are looked at instead of written.
URL.createObjectURL = (blob) => { saved.push(blob); return "#"; };
HTMLAnchorElement.prototype.click = () => {};
