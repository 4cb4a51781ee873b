// Runs after the page's own script: uses everything and tells the frame around what it found.
(async () => {
  const found = window.wrong;
  const counts = { charts: 0, texts: 0, switches: 0, sorts: 0, filters: 0, verdicts: 0, tips: 0, keys: 0, csv: 0, svg: 0 };
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const say = (what, where) => found.push(what + ": " + where);
  const nameOf = (part) => {
    const figure = part.closest("figure");
    return figure ? figure.id : (part.closest("[aria-label]") || part).getAttribute("aria-label");
  };
  const isSeen = (part) => part.getClientRects().length > 0 && !part.closest(".gone");

  // Letters take about 60 % of the height that a browser gives a line of text.
  const boxOf = (text) => {
    const box = text.getBoundingClientRect();
    const upright = box.height > box.width && text.textContent.length > 2;
    const [x, y] = upright ? [box.width * 0.2, 0] : [0, box.height * 0.2];
    return { left: box.left + x, right: box.right - x, top: box.top + y, bottom: box.bottom - y };
  };
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;

  const checkTexts = (svg) => {
    const frame = svg.getBoundingClientRect();
    const texts = all("text", svg).filter((text) => isSeen(text) && text.textContent.trim());
    const boxes = texts.map(boxOf);
    counts.texts += texts.length;
    boxes.forEach((box, index) => {
      if (box.left < frame.left - 2 || box.right > frame.right + 2) {
        say("text outside its chart", nameOf(svg) + " “" + texts[index].textContent + "”");
      }
      for (let other = index + 1; other < boxes.length; other += 1) {
        if (overlap(box, boxes[other])) {
          say("texts overlap", nameOf(svg) + " “" + texts[index].textContent + "” “" + texts[other].textContent + "”");
        }
      }
    });
  };
  const marksOf = (svg) => all("[data-tip], .layer, .cell, [data-series]:not(.legend-item)", svg)
    .filter((mark) => isSeen(mark) && !mark.closest(".legend-item"));
  const hasMarks = (svg) => svg.dataset.holes !== undefined || marksOf(svg).length > 0;

  const checkTip = (svg) => {
    const shape = all("[data-tip]", svg).find(isSeen);
    const target = shape || svg;
    const box = target.getBoundingClientRect();
    const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 3, bubbles: true };
    target.dispatchEvent(new PointerEvent("pointermove", at));
    const tip = document.getElementById("tip");
    if (tip.hidden || !tip.textContent) say("no value at the pointer", nameOf(svg));
    else counts.tips += 1;
    target.dispatchEvent(new PointerEvent("pointerleave"));
    if (!tip.hidden) say("the tip stays", nameOf(svg));
    if (svg.getAttribute("tabindex") !== "0") return say("no keys", nameOf(svg));
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    if (tip.hidden || !tip.textContent) say("no value by keys", nameOf(svg));
    else counts.keys += 1;
    svg.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
  };

  const checkSwitch = (item) => {
    const svg = item.closest("svg");
    const before = marksOf(svg).length;
    const press = () => item.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    press();
    const pressed = item.getAttribute("aria-pressed");
    const between = marksOf(svg).length;
    item.dispatchEvent(new MouseEvent("click", { bubbles: true }));
    if (pressed !== "false" || item.getAttribute("aria-pressed") !== "true") say("a switch does nothing", nameOf(svg) + " " + item.textContent);
    if (marksOf(svg).length !== before) say("a switch does not switch back", nameOf(svg) + " " + item.textContent);
    if (between < before) counts.switches += 1;
    return between < before;
  };

  const isSorted = (values, direction) => values.filter((value) => value !== "")
    .every((value, index, known) => index === 0 || direction * (value - known[index - 1]) >= 0);
  const checkSorting = (table) => {
    const headings = Array.from(table.tHead.rows[0].cells);
    const column = headings.findLastIndex((heading) => heading.classList.contains("n"));
    const heading = headings[Math.max(0, column)];
    const button = heading.querySelector("button");
    if (!button) return say("a table does not sort", nameOf(table));
    button.click();
    if (column >= 0) {
      const values = Array.from(table.tBodies[0].rows).map((row) => row.cells[column].dataset.value);
      if (!isSorted(values, -1)) say("not sorted", nameOf(table));
    }
    if (!heading.getAttribute("aria-sort")) say("sorting is not said", nameOf(table));
    button.click();
    button.click();
    if (heading.getAttribute("aria-sort")) say("sorting does not end", nameOf(table));
    counts.sorts += 1;
  };

  const seenRows = (part) => all("tbody tr", part).filter((row) => !row.hidden).length;
  const checkFilter = (part) => {
    const before = seenRows(part);
    const input = part.querySelector("input");
    if (!input && before < 6) return;
    const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); };
    type("no such row");
    if (seenRows(part) !== 0) say("the filter lets through", nameOf(part));
    type("");
    if (seenRows(part) !== before) say("the filter keeps", nameOf(part));
    counts.filters += 1;
    all("button.only", part).forEach((button) => {
      button.click();
      const left = all("tbody tr", part).filter((row) => !row.hidden);
      const wanted = button.textContent.replace(/ \(.*/, "");
      const words = left.map((row) => row.querySelector(".verdict").textContent.slice(2));
      if (!left.length || left.length >= before || words.some((word) => word !== wanted)) say("a verdict's button does nothing", wanted);
      if (button.getAttribute("aria-pressed") !== "true") say("a verdict's button is not pressed", wanted);
      button.click();
      if (seenRows(part) !== before) say("a verdict's button keeps", wanted);
      counts.verdicts += 1;
    });
  };

  const checkSaving = async (figure) => {
    for (const button of all(".tools button", figure)) {
      window.saved.length = 0;
      button.click();
      const text = window.saved.length ? await window.saved[0].text() : "";
      if (button.textContent === "CSV") {
        const lines = text.trim().split("\n");
        if (lines.length !== figure.querySelector("table").rows.length || !lines[0].includes(",")) say("CSV is not the data", figure.id);
        counts.csv += 1;
      } else {
        const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
        const drawing = parsed.documentElement;
        if (drawing.nodeName !== "svg" || parsed.querySelector("parsererror")) say("SVG is not well formed", figure.id);
        else if (!drawing.getAttribute("width") || parsed.querySelector("[class]")) say("SVG needs the page", figure.id);
        counts.svg += 1;
      }
    }
  };

  const checkWidth = () => {
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth) say("the page is too wide", wide + " in " + innerWidth);
  };

  const checkEverything = async () => {
    checkWidth();
    all("details").forEach((part) => { part.open = true; });
    checkWidth();
    all("svg.chart").forEach((svg) => {
      counts.charts += 1;
      if (!hasMarks(svg)) return say("a chart without marks", nameOf(svg));
      checkTexts(svg);
      checkTip(svg);
      const items = all(".legend-item", svg).slice(0, 6);
      if (items.length && !items.map(checkSwitch).some(Boolean)) say("no switch hides anything", nameOf(svg));
    });
    all("table").forEach(checkSorting);
    all(".filtered").forEach(checkFilter);
    for (const figure of all("figure")) await checkSaving(figure);
  };
  try {
    await checkEverything();
  } catch (error) {
    found.push("the check failed: " + error.stack);
  }
  parent.postMessage({ found: found, counts: counts }, "*");
})();
