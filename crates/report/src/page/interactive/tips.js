// Values at the pointer, and at the shape that the arrow keys have reached.
const tip = document.getElementById("tip");
const showAt = (x, y, text) => {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? x - box.width - 14 : x + 14;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, y - box.height - 12) + "px";
};
const show = (event, text) => showAt(event.clientX, event.clientY, text);
const hide = () => { tip.hidden = true; };

// Titles become our own tips, or the browser would show both.
const replaceTitle = (title) => {
  const shape = title.parentNode;
  const text = title.textContent;
  title.remove();
  if (!text) return;
  shape.setAttribute("data-tip", text);
  shape.addEventListener("pointermove", (event) => show(event, text));
  shape.addEventListener("pointerleave", hide);
};

const pointIn = (svg, event) => {
  const box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width;
  return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
};

// A chart is one stop of the tab key; arrows go from value to value, Escape ends that.
const walkByKeys = (svg) => {
  let at = -1;
  const leave = () => { all(".reached", svg).forEach((part) => part.classList.remove("reached")); hide(); };
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    if (event.target !== svg) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") return leave();
    const marks = all(svg.querySelector(".mark") ? ".mark" : "[data-tip]", svg);
    const shapes = marks.filter((shape) => !shape.closest(".gone"));
    if (!step || !shapes.length) return;
    event.preventDefault();
    leave();
    at = at < 0 ? (step > 0 ? 0 : shapes.length - 1) : (at + step + shapes.length) % shapes.length;
    const shape = shapes[at];
    shape.classList.add("reached");
    shape.scrollIntoView({ block: "nearest" });
    const box = shape.getBoundingClientRect();
    showAt(box.left + box.width / 2, box.top, shape.dataset.tip);
  });
};

const startTips = () => {
  all(".chart title").forEach(replaceTitle);
  all("svg.chart").filter((svg) => svg.querySelector("[data-tip]")).forEach((svg) => {
    svg.setAttribute("tabindex", "0");
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-description", "Arrow keys show the values.");
    walkByKeys(svg);
  });
};
