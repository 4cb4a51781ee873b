// Figures are saved as pictures and as data.
const save = (name, type, content) => {
  const link = make("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
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
  button(box, "PNG", "Save figure as PNG: " + title, async () => save(name + ".png", "image/png", await painted(chart, title)));
  button(box, "CSV", "Save data as CSV: " + title, () => save(name + ".csv", "text/csv", csv(tableOf(figure))));
  figure.append(box);
  figure.querySelector("details").addEventListener("toggle", () => tableOf(figure));
};

// A file that the page carries.
const startFile = (part) => {
  const { name, text } = page.files[part.dataset.file];
  part.hidden = false;
  part.setAttribute("aria-label", "Save " + name);
  part.addEventListener("click", () => save(name, "text/plain", text));
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
