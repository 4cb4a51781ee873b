// Sections that are folded away become part of the page when they are opened.
const fillPart = async (part) => {
  const place = part.querySelector("[data-part]");
  if (!place) return;
  place.innerHTML = page.parts[place.dataset.part];
  delete place.dataset.part;
  await startAll(place);
  place.dataset.ready = "yes";
};
// Opens what has this id, and all that is around it, which may be a section that was not opened yet.
const open = async (id) => {
  const isIn = (place) => page.parts[place.dataset.part].includes(' id="' + id + '"');
  const waiting = document.getElementById(id) ? null : all("[data-part]").find(isIn);
  if (waiting) await fillPart(waiting.closest(".part"));
  const target = document.getElementById(id);
  if (!target) return null;
  for (let part = target.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  if (target.matches(".part")) await fillPart(target);
  return target;
};
const reveal = async (hash) => {
  let id = hash.slice(1);
  // An address can end with anything, “#%” too.
  try { id = decodeURIComponent(id); } catch { return; }
  const target = id ? await open(id) : null;
  target?.scrollIntoView();
};
const startParts = () => {
  all(".part").forEach((part) => part.addEventListener("toggle", () => { if (part.open) fillPart(part); }));
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link) reveal(link.hash);
  });
  follow(location.hash);
  addEventListener("hashchange", () => { if (location.hash.startsWith("#~")) follow(location.hash); });
};
