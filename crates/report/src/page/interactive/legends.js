// Legends switch series off and on; charts side by side follow each other.
const restackBars = (stack) => {
  let x = null;
  all("rect", stack).forEach((bar) => {
    if (!bar.dataset.start) bar.dataset.start = bar.getAttribute("x");
    if (x === null) x = Number(bar.dataset.start);
    if (isOff(bar)) return;
    const width = Number(bar.getAttribute("width"));
    bar.setAttribute("x", x);
    x += width > 0.9 ? width + 0.6 : width;
  });
};
const restackAreas = (svg) => {
  const places = numbers(svg.dataset.places);
  const scale = Number(svg.dataset.scale);
  let base = places.map(() => Number(svg.dataset.floor));
  all(".layer", svg).filter((layer) => !isOff(layer)).forEach((layer) => {
    const values = numbers(layer.dataset.values);
    const upper = base.map((low, index) => low - values[index] * scale);
    const there = places.map((x, index) => x + " " + upper[index].toFixed(2));
    const back = places.map((x, index) => x + " " + base[index].toFixed(2)).reverse();
    layer.setAttribute("d", "M" + there.concat(back).join("L") + "Z");
    base = upper;
  });
};
const restack = (svg) => {
  all(".stack", svg).forEach(restackBars);
  if (svg.dataset.places) restackAreas(svg);
};

const switchIn = (chart, name, off) => {
  all("[data-series]", chart).filter((part) => part.dataset.series === name).forEach((part) => {
    if (part.classList.contains("legend-item")) {
      part.classList.toggle("off", off);
      part.setAttribute("aria-pressed", String(!off));
    } else {
      part.classList.toggle("gone", off);
    }
  });
  restack(chart);
};

const startLegendItem = (item) => {
  const svg = item.closest("svg");
  const group = item.closest(".linked");
  item.classList.add("switch");
  const attributes = { tabindex: "0", role: "button", "aria-pressed": "true", "aria-label": "show " + item.textContent };
  Object.keys(attributes).forEach((name) => item.setAttribute(name, attributes[name]));
  svg.setAttribute("role", "group");
  const toggle = () => {
    const off = !item.classList.contains("off");
    (group ? all("svg", group) : [svg]).forEach((chart) => switchIn(chart, item.dataset.series, off));
  };
  item.addEventListener("click", toggle);
  item.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
  });
};

const startLegends = () => all(".legend-item").forEach(startLegendItem);
