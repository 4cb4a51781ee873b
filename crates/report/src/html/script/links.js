// A link to the page as it is seen: what is open, chosen and switched off stands behind “#~”.
const stateOf = () => {
  const state = new URLSearchParams();
  all("details[open][id]:not(.again)").forEach((part) => state.append("open", part.id));
  chosenIn.forEach((chosen, id) => state.append("choose", JSON.stringify([id, chosen])));
  hiddenIn.forEach((hidden, group) => {
    const { id } = group.closest("figure") ?? group.querySelector("figure");
    if (hidden.length) state.append("hide", JSON.stringify([id, hidden]));
  });
  return "#~" + state;
};
const valuesOf = (state, name) => state.getAll(name).map((text) => {
  try { return JSON.parse(text); } catch { return null; }
}).filter(Array.isArray);
// A link may be older than the page: what is not there any more is left alone.
const showState = async (state) => {
  for (const id of state.getAll("open")) await open(id);
  valuesOf(state, "choose").forEach(([id, chosen]) => {
    const figure = document.getElementById(id);
    const own = Object.hasOwn(page.figures, id) ? page.figures[id] : {};
    const { names, ...first } = own.chart?.usermeta?.choice ?? {};
    const known = Object.entries(chosen ?? {}).filter(([name, value]) => Object.hasOwn(first, name) && names.includes(value));
    if (figure?.querySelector(".choice") && known.length) choose(figure, Object.fromEntries(known));
  });
  valuesOf(state, "hide").forEach(([id, hidden]) => {
    const chart = document.getElementById(id)?.querySelector(".chart");
    if (!chart || !Array.isArray(hidden)) return;
    const before = hiddenIn.get(groupOf(chart)) ?? [];
    const known = (specOf(chart).usermeta?.legend ?? []).map((item) => item.label);
    hidden.filter((label) => known.includes(label) && !before.includes(label)).forEach((label) => toggle(groupOf(chart), label));
  });
};
const follow = (hash) => (hash.startsWith("#~") ? showState(new URLSearchParams(hash.slice(2))) : reveal(hash));
const startLink = () => all("button.link").forEach((part) => {
  part.hidden = false;
  part.addEventListener("click", () => {
    // Where there is no clipboard, the link stands in the address.
    history.replaceState(null, "", stateOf());
    const said = (text) => () => { part.textContent = text; };
    const copied = navigator.clipboard?.writeText(location.href) ?? Promise.reject();
    copied.then(said("Link copied"), said("The link is in the address bar"));
  });
});
