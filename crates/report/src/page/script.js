"use strict";
(function () {
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const numbers = (text) => (text ? text.split(" ").map(Number) : []);

  // Values at the pointer. Titles become our own tips, or the browser would show both.
  const tip = document.getElementById("tip");
  const show = (event, text) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = event.clientX + 14 + box.width > innerWidth;
    tip.style.left = Math.max(4, right ? event.clientX - box.width - 14 : event.clientX + 14) + "px";
    tip.style.top = Math.max(4, event.clientY - box.height - 12) + "px";
  };
  const hide = () => { tip.hidden = true; };
  all(".chart title").forEach((title) => {
    const shape = title.parentNode;
    const text = title.textContent;
    title.remove();
    shape.setAttribute("data-tip", text);
    shape.addEventListener("pointermove", (event) => show(event, text));
    shape.addEventListener("pointerleave", hide);
  });

  const pointIn = (svg, event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  };

  // Stacked areas: all kinds at the nearest sample, and a line that marks it.
  all("svg[data-places]").forEach((svg) => {
    const places = numbers(svg.dataset.places);
    const instructions = numbers(svg.dataset.instructions);
    const layers = all(".layer", svg);
    const line = document.createElementNS(svg.namespaceURI, "line");
    line.setAttribute("class", "cursor gone");
    svg.appendChild(line);
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = pointIn(svg, event);
      const floor = Number(svg.dataset.floor);
      if (y > floor || event.target.closest(".legend-item") || !places.length) {
        line.classList.add("gone");
        return hide();
      }
      let nearest = 0;
      places.forEach((place, index) => {
        if (Math.abs(place - x) < Math.abs(places[nearest] - x)) nearest = index;
      });
      for (const [name, value] of [["x1", places[nearest]], ["x2", places[nearest]], ["y1", floor], ["y2", floor - 170]]) {
        line.setAttribute(name, value);
      }
      line.classList.remove("gone");
      const rows = layers.filter((layer) => !layer.classList.contains("gone")).reverse()
        .map((layer) => layer.dataset.label + ": " + numbers(layer.dataset.values)[nearest].toLocaleString("en"));
      show(event, "after " + instructions[nearest].toLocaleString("en") + " instructions\n" + rows.join("\n"));
    });
    svg.addEventListener("pointerleave", () => { line.classList.add("gone"); hide(); });
  });

  // Hole grids: which sub-page is under the pointer.
  all("svg[data-holes]").forEach((svg) => {
    const words = { i: "in place", a: "hole, allocated", u: "hole, unallocated" };
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = pointIn(svg, event);
      const column = Math.floor((x - Number(svg.dataset.left)) / 10);
      const region = Math.floor((y - 3) / 24);
      const line = Math.floor((y - 3 - region * 24) / 10);
      if (column < 0 || column > 31 || region < 0 || region > 7 || line > 1) return hide();
      const index = region * 64 + line * 32 + column;
      show(event, "sub-page " + index + " (+0x" + (index * 4096).toString(16) + "), region " + region + "\n" + words[svg.dataset.holes[index]]);
    });
    svg.addEventListener("pointerleave", hide);
  });

  // Legends switch series off and on; charts side by side follow each other.
  const restack = (svg) => {
    all(".stack", svg).forEach((stack) => {
      let x = null;
      all("rect", stack).forEach((bar) => {
        if (!bar.dataset.start) { bar.dataset.start = bar.getAttribute("x"); }
        const start = Number(bar.dataset.start);
        if (x === null) x = start;
        if (bar.classList.contains("gone")) return;
        const width = Number(bar.getAttribute("width"));
        bar.setAttribute("x", x);
        x += width > 0.9 ? width + 0.6 : width;
      });
    });
    if (!svg.dataset.places) return;
    const places = numbers(svg.dataset.places);
    const scale = Number(svg.dataset.scale);
    let base = places.map(() => Number(svg.dataset.floor));
    all(".layer", svg).filter((layer) => !layer.classList.contains("gone")).forEach((layer) => {
      const values = numbers(layer.dataset.values);
      const upper = base.map((low, index) => low - values[index] * scale);
      const there = places.map((x, index) => x + " " + upper[index].toFixed(2));
      const back = places.map((x, index) => x + " " + base[index].toFixed(2)).reverse();
      layer.setAttribute("d", "M" + there.concat(back).join("L") + "Z");
      base = upper;
    });
  };
  all(".legend-item").forEach((item) => {
    const svg = item.closest("svg");
    const group = item.closest(".linked");
    const name = item.dataset.series;
    item.classList.add("switch");
    item.setAttribute("tabindex", "0");
    item.setAttribute("role", "button");
    item.setAttribute("aria-pressed", "true");
    item.setAttribute("aria-label", "show " + item.textContent);
    svg.setAttribute("role", "group");
    const toggle = () => {
      const off = !item.classList.contains("off");
      (group ? all("svg", group) : [svg]).forEach((chart) => {
        all("[data-series]", chart).filter((part) => part.dataset.series === name).forEach((part) => {
          if (part.classList.contains("legend-item")) {
            part.classList.toggle("off", off);
            part.setAttribute("aria-pressed", String(!off));
          } else {
            part.classList.toggle("gone", off);
          }
        });
        restack(chart);
      });
    };
    item.addEventListener("click", toggle);
    item.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
    });
  });

  // Tables sort by a click on a heading.
  const keyOf = (row, column) => row.cells[column].dataset.value;
  all("table.main, table.counters").forEach((table) => {
    const body = table.tBodies[0];
    const original = Array.from(body.rows);
    const headings = Array.from(table.tHead.rows[0].cells);
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      button.title = "sort";
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const numeric = heading.classList.contains("n");
        const order = numeric ? [null, "descending", "ascending"] : [null, "ascending", "descending"];
        const next = order[(order.indexOf(heading.getAttribute("aria-sort")) + 1) % 3];
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        const direction = next === "descending" ? -1 : 1;
        const rows = original.slice();
        if (next) {
          heading.setAttribute("aria-sort", next);
          rows.sort((a, b) => {
            const [left, right] = [keyOf(a, column), keyOf(b, column)];
            if (numeric) {
              // Missing values stay at the end either way.
              if (left === "" || right === "") return (left === "") - (right === "");
              return direction * (Number(left) - Number(right));
            }
            return direction * left.localeCompare(right);
          });
        }
        rows.forEach((row) => body.appendChild(row));
      });
    });
  });

  // Downloads.
  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const field = (text) => {
    // A text that starts like a formula must not become one in a spreadsheet.
    const safe = /^[=+@\-]/.test(text) && isNaN(Number(text)) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? '"' + safe.replaceAll('"', '""') + '"' : safe;
  };
  const csv = (table) => Array.from(table.rows).map((row) => Array.from(row.cells)
    .map((cell) => field(cell.dataset.value === undefined ? cell.textContent : cell.dataset.value)).join(",")).join("\n") + "\n";
  const picture = (svg) => {
    const copy = svg.cloneNode(true);
    const [, , width, height] = svg.getAttribute("viewBox").split(" ");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.setAttribute("role", "img");
    all(".cursor, .gone", copy).forEach((part) => part.remove());
    all(".off", copy).forEach((part) => part.setAttribute("opacity", "0.38"));
    all("*", copy).concat(copy).forEach((part) => Array.from(part.attributes).forEach((attribute) => {
      if (/^(data-|tabindex|class|aria-pressed)/.test(attribute.name)) part.removeAttribute(attribute.name);
    }));
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + new XMLSerializer().serializeToString(copy) + "\n";
  };
  const tool = (parent, text, label, action) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "tool";
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", () => action(button));
    parent.appendChild(button);
  };
  const tools = () => {
    const box = document.createElement("div");
    box.className = "tools";
    return box;
  };
  all("figure").forEach((figure) => {
    const box = tools();
    const name = figure.dataset.name;
    const title = figure.querySelector("h3").textContent;
    tool(box, "SVG", "Save figure as SVG: " + title, () => save(name + ".svg", "image/svg+xml", picture(figure.querySelector("svg"))));
    tool(box, "CSV", "Save data as CSV: " + title, () => save(name + ".csv", "text/csv", csv(figure.querySelector("table"))));
    figure.appendChild(box);
  });

  // The table of all counters can be searched.
  all(".filtered").forEach((part) => {
    const table = part.querySelector("table");
    const box = tools();
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "Filter counters, e.g. tlb";
    input.setAttribute("aria-label", "Filter counters");
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase().split(/\s+/);
      Array.from(table.tBodies[0].rows).forEach((row) => {
        const name = row.cells[0].dataset.value.toLowerCase();
        row.hidden = !wanted.every((word) => name.includes(word));
      });
    });
    box.appendChild(input);
    tool(box, "CSV", "Save all counters as CSV", () => save(part.dataset.name + ".csv", "text/csv", csv(table)));
    part.insertBefore(box, part.querySelector(".scroll"));
  });

  // The command can be copied; printing opens the first configuration.
  all(".command").forEach((part) => {
    if (!navigator.clipboard) return;
    tool(part, "Copy", "Copy command", (button) => {
      navigator.clipboard.writeText(part.querySelector("pre").textContent)
        .then(() => { button.textContent = "Copied"; }, () => { button.textContent = "Select and copy"; });
    });
  });
  addEventListener("beforeprint", () => all(".comparison").forEach((part) => {
    const first = part.querySelector(".configuration");
    if (first) first.open = true;
  }));
})();
