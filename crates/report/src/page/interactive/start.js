// What the others share. The page is complete without any of this.
const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
const numbers = (text) => (text ? text.split(" ").map(Number) : []);
const isOff = (part) => part.classList.contains("gone");
const make = (tag, properties) => Object.assign(document.createElement(tag), properties);

const button = (parent, text, label, action) => {
  const made = make("button", { type: "button", className: "tool", textContent: text });
  made.setAttribute("aria-label", label);
  made.addEventListener("click", () => action(made));
  parent.appendChild(made);
  return made;
};
