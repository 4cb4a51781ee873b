// Pictures as SVG that look the same anywhere; data as CSV.
const save = (name, type, text) => {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
const field = (text) => {
  // A text that starts like a formula must not become one in a spreadsheet.
  const safe = /^[=+@\-]/.test(text) && isNaN(Number(text)) ? "'" + text : text;
  return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
};
const valueOf = (cell) => cell.dataset.value
  ?? (cell.matches("tbody .n") ? cell.textContent.replaceAll(",", "") : cell.textContent);
const csv = (table) => [...table.rows]
  .map((row) => [...row.cells].map((cell) => field(valueOf(cell))).join(",")).join("\n") + "\n";

// A colour of the page on light ground.
const light = (name) => [...document.styleSheets[0].cssRules]
  .filter((rule) => rule.selectorText === ":root")
  .map((rule) => rule.style.getPropertyValue(name))
  .find(Boolean) ?? "#888";
const picture = async (chart) => {
  const drawing = await viewOf(chart, 560, page.config, { renderer: "none" }).toSVG();
  return drawing.replaceAll(/var\((--[\w-]+)\)/g, (found, name) => light(name)).replace("<svg ", '<svg style="background:#fff" ');
};

// The data below a figure are a table from the first time that they are looked at.
const tableOf = (figure) => {
  const place = figure.querySelector(".data .scroll");
  if (!place.firstChild) {
    place.innerHTML = page.figures[figure.id].table;
    startSorting(place.firstChild);
  }
  return place.firstChild;
};
const startFigure = (figure) => {
  const box = make("div", { className: "tools" });
  const name = figure.dataset.name;
  const title = figure.querySelector("h3").textContent;
  const chart = figure.querySelector(".chart");
  button(box, "SVG", "Save figure as SVG: " + title, async () => save(name + ".svg", "image/svg+xml", await picture(chart)));
  button(box, "CSV", "Save data as CSV: " + title, () => save(name + ".csv", "text/csv", csv(tableOf(figure))));
  figure.append(box);
  figure.querySelector("details").addEventListener("toggle", () => tableOf(figure));
};

const startCommand = (part) => {
  if (!navigator.clipboard) return;
  button(part, "Copy", "Copy command", (made) => {
    navigator.clipboard.writeText(part.querySelector("pre").textContent)
      .then(() => { made.textContent = "Copied"; }, () => { made.textContent = "Select and copy"; });
  });
};

const fillText = (text) => { text.textContent = page.texts[text.dataset.text]; };
const startText = (text) => text.closest("details").addEventListener("toggle", () => fillText(text));

// Paper has no clicks: all is open there, and closed again afterwards.
const startPrinting = () => {
  let opened = [];
  addEventListener("beforeprint", () => {
    all(".part").forEach(fillPart);
    opened = all("details:not([open])");
    opened.forEach((part) => { part.open = true; });
    all("[data-text]").forEach(fillText);
    all("figure").forEach(tableOf);
    all(".chart").forEach(drawOnce);
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
};
