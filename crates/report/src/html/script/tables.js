// Tables sort by a click on a heading: once, the other way round, and back as they were.
const compare = (numeric, direction) => (left, right) => {
  if (!numeric) return direction * left.localeCompare(right, "en", { numeric: true });
  // Missing values stay at the end either way.
  if (left === "" || right === "") return (left === "") - (right === "");
  return direction * (Number(left) - Number(right));
};
const startSorting = (table) => {
  const body = table.tBodies[0];
  const original = Array.from(body.rows);
  const headings = Array.from(table.tHead.rows[0].cells);
  const sort = (heading, column) => {
    const numeric = heading.classList.contains("n");
    const order = numeric ? [null, "descending", "ascending"] : [null, "ascending", "descending"];
    const next = order[(order.indexOf(heading.getAttribute("aria-sort")) + 1) % 3];
    headings.forEach((other) => other.removeAttribute("aria-sort"));
    const rows = original.slice();
    if (next) {
      heading.setAttribute("aria-sort", next);
      const before = compare(numeric, next === "descending" ? -1 : 1);
      rows.sort((a, b) => before(valueOf(a.cells[column]), valueOf(b.cells[column])));
    }
    rows.forEach((row) => body.appendChild(row));
  };
  headings.forEach((heading, column) => {
    const made = make("button", { type: "button", title: "sort" });
    made.append(...heading.childNodes);
    heading.append(made);
    made.addEventListener("click", () => sort(heading, column));
  });
};

// Tables of counters and claims can be searched; claims by their verdict, too.
const verdictOf = (row) => {
  const verdict = row.querySelector(".verdict");
  return verdict ? valueOf(verdict.closest("td")) : null;
};
const addVerdicts = (box, rows, state, apply) => {
  const present = ["reproduced", "same direction", "not reproduced"]
    .filter((verdict) => rows.some((row) => verdictOf(row) === verdict));
  if (present.length < 2) return;
  const made = present.map((verdict) => {
    const number = rows.filter((row) => verdictOf(row) === verdict).length;
    const toggle = button(box, verdict + " (" + number + ")", "Show only " + verdict, () => {
      state.verdict = state.verdict === verdict ? null : verdict;
      made.forEach((other) => other.setAttribute("aria-pressed", String(other === toggle && state.verdict !== null)));
      apply();
    });
    toggle.setAttribute("aria-pressed", "false");
    toggle.classList.add("only");
    return toggle;
  });
};

const startFilter = (part) => {
  const table = part.querySelector("table");
  const rows = Array.from(table.tBodies[0].rows);
  const what = part.dataset.what || "counters";
  const box = make("div", { className: "tools" });
  part.insertBefore(box, part.querySelector(".scroll"));
  const saveAll = () => save(part.dataset.name + ".csv", "text/csv", csv(table));
  // A few rows are seen at a glance.
  if (rows.length < 6) return button(box, "CSV", "Save " + what + " as CSV", saveAll);
  const input = make("input", { type: "search", placeholder: "Filter " + what });
  const state = { verdict: null };
  const count = make("span", { className: "count" });
  count.setAttribute("role", "status");
  const apply = () => {
    const wanted = input.value.toLowerCase().split(/\s+/);
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      const fits = state.verdict === null || verdictOf(row) === state.verdict;
      row.hidden = !(fits && wanted.every((word) => text.includes(word)));
    });
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = shown === rows.length ? "" : shown + " of " + rows.length;
  };
  input.setAttribute("aria-label", "Filter " + what);
  input.addEventListener("input", apply);
  box.appendChild(input);
  addVerdicts(box, rows, state, apply);
  button(box, "CSV", "Save " + what + " as CSV", saveAll);
  box.appendChild(count);
};
