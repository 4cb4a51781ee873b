// Values at the pointer, and at the mark that the arrow keys have reached.
const tip = document.getElementById("tip");
const showAt = (x, y, text) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - box.width - 14 : x + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, y - box.height - 12) + "px";
};
const hide = () => { tip.hidden = true; };
const tipText = (value) => Object.entries(value)
  .filter(([, text]) => text !== "" && text !== null)
  .map(([name, text]) => name + ": " + text)
  .join("\n");
const onTip = (handler, event, item, value) => {
  if (value) showAt(event.clientX, event.clientY, tipText(value));
  else hide();
};

// A chart is one stop of the tab key; arrows go from value to value, Escape ends that.
const walkByKeys = (chart) => {
  let at = -1;
  const leave = () => { all(".reached", chart).forEach((mark) => mark.classList.remove("reached")); hide(); };
  chart.addEventListener("blur", leave);
  chart.addEventListener("pointerleave", hide);
  chart.addEventListener("keydown", (event) => {
    if (event.target !== chart) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") return leave();
    const marks = all(".role-mark *", chart).filter((mark) => mark.__data__?.tooltip);
    if (!step || !marks.length) return;
    event.preventDefault();
    leave();
    at = at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length;
    const mark = marks[at];
    mark.classList.add("reached");
    mark.scrollIntoView({ block: "nearest" });
    const box = mark.getBoundingClientRect();
    showAt(box.left + box.width / 2, box.top, tipText(mark.__data__.tooltip));
  });
};
