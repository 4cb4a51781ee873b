// Stacked areas: all kinds at the nearest sample, and a line that marks it.
const sampleText = (svg, index) => {
  const rows = all(".layer", svg).filter((layer) => !isOff(layer)).reverse()
    .map((layer) => layer.dataset.label + ": " + numbers(layer.dataset.values)[index].toLocaleString("en"));
  const instructions = numbers(svg.dataset.instructions)[index].toLocaleString("en");
  return "after " + instructions + " instructions\n" + rows.join("\n");
};
const cursorOf = (svg) => {
  const line = document.createElementNS(svg.namespaceURI, "line");
  line.setAttribute("class", "cursor gone");
  svg.appendChild(line);
  return line;
};
const putCursor = (line, x, floor) => {
  const ends = { x1: x, x2: x, y1: floor, y2: floor - 170 };
  Object.keys(ends).forEach((name) => line.setAttribute(name, ends[name]));
  line.classList.remove("gone");
};
const nearestTo = (places, x) => places
  .reduce((best, place, index) => (Math.abs(place - x) < Math.abs(places[best] - x) ? index : best), 0);

const startArea = (svg) => {
  const places = numbers(svg.dataset.places);
  const floor = Number(svg.dataset.floor);
  if (!places.length) return;
  const line = cursorOf(svg);
  const leave = () => { line.classList.add("gone"); hide(); };
  svg.addEventListener("pointermove", (event) => {
    const [x, y] = pointIn(svg, event);
    if (y > floor || event.target.closest(".legend-item")) return leave();
    const index = nearestTo(places, x);
    putCursor(line, places[index], floor);
    show(event, sampleText(svg, index));
  });
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-description", "Arrow keys show the values.");
  let at = -1;
  svg.addEventListener("keydown", (event) => {
    if (event.target !== svg) return;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") return leave();
    if (!step) return;
    event.preventDefault();
    at = Math.min(places.length - 1, Math.max(0, at + step));
    putCursor(line, places[at], floor);
    const box = line.getBoundingClientRect();
    showAt(box.left, box.top + 30, sampleText(svg, at));
  });
};

// Hole grids: which sub-page is under the pointer, or was reached with the arrow keys.
const holeText = (svg, index) => {
  const words = { i: "in place", a: "hole, allocated", u: "hole, unallocated" };
  const region = Math.floor(index / 64);
  return "sub-page " + index + " (+0x" + (index * 4096).toString(16) + "), region " + region + "\n" + words[svg.dataset.holes[index]];
};
// 32 sub-pages a line, two lines a region.
const holeAt = (svg, [x, y]) => {
  const column = Math.floor((x - Number(svg.dataset.left)) / 10);
  const region = Math.floor((y - 3) / 24);
  const line = Math.floor((y - 3 - region * 24) / 10);
  if (column < 0 || column > 31 || region < 0 || region > 7 || line > 1) return null;
  return region * 64 + line * 32 + column;
};
const startHoles = (svg) => {
  svg.addEventListener("pointermove", (event) => {
    const index = holeAt(svg, pointIn(svg, event));
    if (index === null) return hide();
    show(event, holeText(svg, index));
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  svg.setAttribute("tabindex", "0");
  svg.setAttribute("aria-description", "Arrow keys show the sub-pages.");
  let at = -1;
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 32, ArrowUp: -32 }[event.key];
    if (event.key === "Escape") return hide();
    if (!step) return;
    event.preventDefault();
    at = at < 0 ? 0 : Math.min(511, Math.max(0, at + step));
    const box = svg.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const x = Number(svg.dataset.left) + (at % 32) * 10 + 5;
    const y = 3 + Math.floor(at / 64) * 24 + Math.floor((at % 64) / 32) * 10 + 5;
    showAt(box.left + x * scale, box.top + y * scale, holeText(svg, at));
  });
};

const startPictures = () => {
  all("svg[data-places]").forEach(startArea);
  all("svg[data-holes]").forEach(startHoles);
};
