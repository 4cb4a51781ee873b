// Pictures as SVG that look the same anywhere; data as CSV.
const save = (name, type, text) => {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const field = (text) => {
  // A text that starts like a formula must not become one in a spreadsheet.
  const safe = /^[=+@\-]/.test(text) && isNaN(Number(text)) ? "'" + text : text;
  return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
};
const valueOf = (cell) => (cell.dataset.value === undefined ? cell.textContent : cell.dataset.value);
const csv = (table) => Array.from(table.rows)
  .map((row) => Array.from(row.cells).map((cell) => field(valueOf(cell))).join(",")).join("\n") + "\n";

const picture = (svg) => {
  const copy = svg.cloneNode(true);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  const attributes = { width: width, height: height, role: "img", style: "background:#fff" };
  Object.keys(attributes).forEach((name) => copy.setAttribute(name, attributes[name]));
  all(".cursor, .gone", copy).forEach((part) => part.remove());
  all(".off", copy).forEach((part) => part.setAttribute("opacity", "0.38"));
  // Only attributes stay that mean something without the page.
  const ours = /^(data-|tabindex|class|aria-pressed|aria-description)/;
  all("*", copy).concat(copy).forEach((part) => Array.from(part.attributes)
    .filter((attribute) => ours.test(attribute.name))
    .forEach((attribute) => part.removeAttribute(attribute.name)));
  return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(copy) + "\n";
};

const startFigure = (figure) => {
  const box = make("div", { className: "tools" });
  const name = figure.dataset.name;
  const title = figure.querySelector("h3").textContent;
  button(box, "SVG", "Save figure as SVG: " + title, () => save(name + ".svg", "image/svg+xml", picture(figure.querySelector("svg"))));
  button(box, "CSV", "Save data as CSV: " + title, () => save(name + ".csv", "text/csv", csv(figure.querySelector("table"))));
  figure.appendChild(box);
};

const startCommand = (part) => {
  if (!navigator.clipboard) return;
  button(part, "Copy", "Copy command", (made) => {
    navigator.clipboard.writeText(part.querySelector("pre").textContent)
      .then(() => { made.textContent = "Copied"; }, () => { made.textContent = "Select and copy"; });
  });
};

// Paper has no clicks: all is open there, and closed again afterwards.
const startPrinting = () => {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all("details:not([open])");
    opened.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
};

const startDownloads = () => {
  all("figure").forEach(startFigure);
  all(".command").forEach(startCommand);
  startPrinting();
};
