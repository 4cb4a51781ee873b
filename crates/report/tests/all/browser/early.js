// Runs before anything else of the page: what goes wrong later is remembered.
window.wrong = [];
window.saved = [];
addEventListener("error", (event) => wrong.push("script error: " + event.message));
addEventListener("unhandledrejection", (event) => wrong.push("script error: " + event.reason));
addEventListener("securitypolicyviolation", (event) => wrong.push("refused: " + event.blockedURI));
["error", "warn"].forEach((level) => {
  console[level] = (...words) => wrong.push("console: " + words.join(" "));
});
// Downloads are looked at instead of written.
URL.createObjectURL = (blob) => { saved.push(blob); return "#"; };
HTMLAnchorElement.prototype.click = () => {};
