// Runs after the page's own script: uses everything and tells the frame around what it found.
(async () => {
  const found = window.wrong;
  const counts = { charts: 0, texts: 0, switches: 0, sorts: 0, filters: 0, verdicts: 0, tips: 0, keys: 0, csv: 0, svg: 0, png: 0, choices: 0, links: 0, files: 0 };
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const say = (what, where) => found.push(what + ": " + where);
  const nameOf = (part) => {
    const figure = part.closest("figure");
    return figure ? figure.id : (part.closest("[aria-label]") || part).getAttribute("aria-label");
  };
  const isSeen = (part) => part.getClientRects().length > 0 && part.getAttribute("opacity") !== "0";
  // Waits for promises first: what comes by them needs no frame, and a frame paints the whole page.
  const soon = async (condition) => {
    for (let turn = 0; turn < 100 && !condition(); turn += 1) await null;
    return condition();
  };
  const until = async (what, condition) => {
    // What is expected never to come would come at once.
    const turns = window.expected === "waited in vain: " + what ? 100 : 1500;
    for (let turn = 0; turn < turns; turn += 1) {
      if (await soon(condition)) return;
      await new Promise((next) => setTimeout(next, 10));
    }
    throw new Error("waited in vain: " + what);
  };

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
    // A text may be drawn twice: its outline keeps lines away.
    const texts = all("text", svg).filter((text) => isSeen(text) && text.textContent.trim() && text.getAttribute("stroke") !== "var(--card)");
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
  const drawn = (chart) => all(".role-mark path, .role-mark line, .role-mark text", chart)
    .filter((mark) => mark.__data__ && mark.getAttribute("d") !== "");
  const marksOf = (chart) => drawn(chart).filter((mark) => mark.getAttribute("opacity") !== "0");
  const checkNumbers = (chart) => {
    const text = chart.innerHTML;
    const at = text.search(/NaN|Infinity|undefined/);
    if (at >= 0) say("not a number", nameOf(chart) + " " + text.slice(Math.max(0, at - 60), at + 60));
  };

  // What a pointer meets in the middle of a mark: a value may be shown where nothing is seen.
  const meet = (mark) => {
    const box = mark.getBoundingClientRect();
    const [clientX, clientY] = [box.left + box.width / 2, box.top + box.height / 2];
    return { part: document.elementFromPoint(clientX, clientY), clientX, clientY };
  };
  const pointAt = ({ part, clientX, clientY }, names) => names
    .forEach((name) => part.dispatchEvent(new PointerEvent(name, { clientX, clientY, bubbles: true })));
  const target = (chart) => {
    for (const mark of drawn(chart).filter((mark) => mark.__data__.tooltip)) {
      mark.scrollIntoView({ block: "nearest" });
      const met = meet(mark);
      if (met.part?.__data__?.tooltip && chart.contains(met.part)) return met;
    }
    return null;
  };
  const checkTip = (chart) => {
    const tip = document.getElementById("tip");
    const met = target(chart);
    if (!met) return say("nothing to point at", nameOf(chart));
    pointAt(met, ["pointerover", "pointermove"]);
    if (tip.hidden || !tip.textContent) say("no value at the pointer", nameOf(chart));
    else counts.tips += 1;
    pointAt(met, ["pointerout", "pointerleave"]);
    chart.dispatchEvent(new PointerEvent("pointerleave"));
    if (!tip.hidden) say("the tip stays", nameOf(chart));
    tip.hidden = true;
    if (chart.getAttribute("tabindex") !== "0") return say("no keys", nameOf(chart));
    chart.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    if (tip.hidden || !tip.textContent) say("no value by keys", nameOf(chart));
    else counts.keys += 1;
    chart.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    if (!tip.hidden) say("Escape does not hide the tip", nameOf(chart));
  };

  // Charts that are switched together, and one series of them after the other until each chart has
  // lost a mark by it.
  const legendOf = (part) => all(".legend button", part.closest(".linked") ?? part.closest("figure"));
  const pressedOf = (items) => items.map((item) => item.getAttribute("aria-pressed"));
  const clicked = async (item, counts) => {
    item.click();
    // Charts are drawn anew by promises.
    await soon(() => false);
    return counts();
  };
  const checkSwitches = async (charts) => {
    const items = legendOf(charts[0]);
    const marks = () => charts.map((chart) => marksOf(chart).length);
    let same = charts.filter((chart) => items.length && marksOf(chart).length);
    for (const series of new Set(items.map((item) => item.dataset.series))) {
      if (!same.length) return;
      const alike = items.filter((item) => item.dataset.series === series);
      const before = marks();
      const between = await clicked(alike[0], marks);
      if (pressedOf(alike).includes("true")) say("a switch does nothing", nameOf(alike[0]) + " " + series);
      const after = await clicked(alike[0], marks);
      if (pressedOf(alike).includes("false")) say("a switch does nothing", nameOf(alike[0]) + " " + series);
      if (after.join() !== before.join()) say("a switch does not switch back", nameOf(alike[0]) + " " + series);
      same = same.filter((chart) => between[charts.indexOf(chart)] === before[charts.indexOf(chart)]);
      counts.switches += 1;
    }
    same.forEach((chart) => say("no switch hides anything", nameOf(chart)));
  };

  // A chart that comes near is drawn; for paper, all others are, without waiting for frames.
  const drawAll = async (charts) => {
    for (const chart of new Set([charts[0], charts.at(-1)])) {
      chart.scrollIntoView();
      await until("drawing " + nameOf(chart), () => chart.querySelector("svg") || found.some((text) => text.startsWith("script error")));
    }
    dispatchEvent(new Event("beforeprint"));
  };
  const checkChart = (chart) => {
    chart.scrollIntoView();
    const svg = chart.querySelector("svg");
    if (!svg) return say("a chart is not drawn", nameOf(chart));
    counts.charts += 1;
    if (!marksOf(chart).length) return say("a chart without marks", nameOf(chart));
    checkNumbers(chart);
    checkTexts(svg);
    checkTip(chart);
  };

  const valueOf = (cell) => cell.dataset.value ?? cell.textContent.replaceAll(",", "");
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
      const values = Array.from(table.tBodies[0].rows).map((row) => valueOf(row.cells[column]));
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

  const rowsOf = (text) => {
    const cell = /("(?:[^"]|"")*"|[^",\n]*)(,|\n)/g;
    const rows = [[]];
    for (const [, value, end] of text.matchAll(cell)) {
      rows.at(-1).push(value);
      if (end === "\n") rows.push([]);
    }
    return rows.slice(0, -1);
  };
  const checks = {
    CSV: async (figure, blob) => {
      const rows = rowsOf(await blob.text());
      const table = figure.querySelector("table");
      const isWhole = rows.length === table.rows.length && rows.every((row) => row.length === table.rows[0].cells.length);
      if (!isWhole || rows[0].length < 2) say("CSV is not the data", figure.id);
      counts.csv += 1;
    },
    SVG: async (figure, blob) => {
      const text = await blob.text();
      const parsed = new DOMParser().parseFromString(text, "image/svg+xml");
      const drawing = parsed.documentElement;
      const isLabelled = legendOf(figure).every((item) => drawing.textContent.includes(item.dataset.series.slice(0, 20)));
      if (drawing.nodeName !== "svg" || parsed.querySelector("parsererror")) say("SVG is not well formed", figure.id);
      else if (!drawing.getAttribute("width") || text.includes("var(")) say("SVG needs the page", figure.id);
      else if (!isLabelled) say("SVG has no legend", figure.id);
      counts.svg += 1;
    },
    // Signature, width in pixels, and whether anything but white is painted.
    PNG: async (figure, blob) => {
      const bytes = new Uint8Array(await blob.arrayBuffer());
      const width = new DataView(bytes.buffer).getUint32(16);
      const isPng = [137, 80, 78, 71].every((byte, index) => bytes[index] === byte);
      if (!isPng || width < 400 || bytes.length < 3000) say("PNG is not a picture", figure.id + " " + width + " " + bytes.length);
      const picture = await createImageBitmap(blob);
      const ink = Object.assign(document.createElement("canvas"), { width, height: picture.height }).getContext("2d");
      ink.drawImage(picture, 0, 0);
      const pixels = ink.getImageData(0, 0, width, picture.height).data;
      if (pixels[0] !== 255 || pixels[3] !== 255) say("PNG has no white ground", figure.id);
      counts.png += 1;
    },
  };
  const checkSaving = async (figure, hasPicture) => {
    const buttons = all(".tools button", figure);
    if (buttons.map((button) => button.textContent).join() !== "SVG,PNG,CSV") return say("buttons are missing", figure.id);
    for (const button of buttons) {
      if (button.textContent !== "CSV" && !hasPicture) continue;
      window.saved.length = 0;
      button.click();
      await until("saving " + figure.id, () => window.saved.length);
      await checks[button.textContent](figure, window.saved[0]);
    }
  };

  // A chart that goes from one scheme to another is another chart for another scheme.
  const checkChoices = async (figure) => {
    // Marks may come in another order.
    const textOf = () => all(".chart text", figure).map((text) => text.textContent).sort().join("|");
    const selects = all(".choice select", figure);
    for (const select of selects) {
      const [value, text] = [select.value, textOf()];
      const isFree = (option) => selects.every((one) => one.value !== option.value);
      const other = all("option", select).findLast(isFree)?.value;
      if (!other) continue;
      const set = async (wanted) => {
        select.value = wanted;
        select.dispatchEvent(new Event("change"));
        await soon(() => false);
      };
      await set(other);
      if (textOf() === text || !textOf().includes(other)) say("a choice does nothing", figure.id + " " + other);
      checkTexts(figure.querySelector(".chart svg"));
      await set(value);
      if (textOf() !== text) say("a choice cannot be taken back", figure.id);
      counts.choices += 1;
    }
  };

  // What the page carries, and the link to what is seen.
  const checkBox = async () => {
    for (const button of all("[data-file]")) {
      window.saved.length = 0;
      button.click();
      await until("saving " + button.textContent, () => window.saved.length);
      if (!(await window.saved[0].text()).includes("\n")) say("an empty file", button.textContent);
      counts.files += 1;
    }
    const button = document.querySelector("button.link");
    if (button.hidden) return say("no link", "");
    const opened = document.querySelector("details[id]:not(.again)");
    const figure = all("figure").find((one) => one.querySelector(".choice"));
    const select = figure?.querySelector("[name=from]");
    const first = select?.value;
    const other = select && all("option", select).at(-1).value;
    if (opened) opened.open = true;
    if (select) { select.value = other; select.dispatchEvent(new Event("change")); }
    button.click();
    await until("the link", () => location.hash.startsWith("#~"));
    const link = location.hash;
    if (opened) opened.open = false;
    if (select) { select.value = first; select.dispatchEvent(new Event("change")); }
    location.hash = "";
    location.hash = link;
    await until("what the link shows", () => (!opened || opened.open) && (!select || select.value === other));
    if (select) { select.value = first; select.dispatchEvent(new Event("change")); }
    // Addresses that no page has made change nothing; what a script throws is told as any other error.
    const id = figure?.id ?? "x";
    const odd = [
      "#~choose=null", "#~choose=7&hide=null&open=", "#~choose=[null,null]", "#~hide=[null,[null]]",
      '#~choose=["constructor",{"from":"x"}]', "#~hide=" + JSON.stringify([id, ["no such", 7]]),
      "#~choose=" + JSON.stringify([id, { constructor: other, toString: other, from: "no such" }]),
    ];
    for (const hash of odd) {
      location.hash = hash;
      await new Promise((next) => setTimeout(next, 5));
      if (select && select.value !== first) say("an odd address changes the choice", hash);
    }
    if (all('.legend [aria-pressed="false"]').length) say("an odd address hides something", "");
    counts.links += 1;
  };

  const checkWidth = () => {
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth) say("the page is too wide", wide + " in " + innerWidth);
  };

  // A wide window shows all columns of the tables that all readers see.
  const checkColumns = () => {
    if (innerWidth < 1200) return;
    all(".scroll").filter((box) => box.querySelector(".main") && box.scrollWidth > box.clientWidth + 1)
      .forEach((box) => say("a column is cut off", nameOf(box) + " " + box.scrollWidth + " in " + box.clientWidth));
  };

  const checkEverything = async () => {
    await until("the page's script", () => document.body.dataset.ready || found.length);
    checkWidth();
    // Scrolling has an end at once.
    document.documentElement.style.scrollBehavior = "auto";
    // What is in a section that is opened may be folded, too.
    while (document.querySelector("details:not([open]), [data-part]")) {
      all("details").forEach((part) => { part.open = true; });
      await new Promise((next) => setTimeout(next, 50));
      await until("opening sections", () => all(".part > div").every((place) => place.dataset.ready));
    }
    checkWidth();
    checkColumns();
    all("[data-text]").filter((text) => !text.textContent).forEach((text) => say("an empty text", text.dataset.text));
    const charts = all(".chart");
    if (charts.length) await drawAll(charts);
    for (const group of Map.groupBy(charts, (chart) => chart.closest(".linked") ?? chart).values()) {
      group.forEach(checkChart);
      await checkSwitches(group);
    }
    checkWidth();
    for (const figure of all("figure")) await checkChoices(figure);
    await checkBox();
    all("table").forEach(checkSorting);
    all(".filtered").forEach(checkFilter);
    // Pictures are drawn anew, the same on all widths: a narrow page saves one, a long one some.
    const figures = all("figure");
    const step = innerWidth < 600 ? figures.length : Math.ceil(figures.length / 40);
    for (const [index, figure] of figures.entries()) await checkSaving(figure, index % step === 0);
  };
  try {
    await checkEverything();
  } catch (error) {
    found.push("the check failed: " + error.stack);
  }
  parent.postMessage({ found: [...found], counts: counts }, "*");
})();
