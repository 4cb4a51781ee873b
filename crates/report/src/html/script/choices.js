// Which two schemes a chart goes from and to is chosen above it.
const choose = (figure, chosen) => {
  chosenIn.set(figure.id, { ...chosenIn.get(figure.id), ...chosen });
  Object.entries(chosen).forEach(([name, value]) => {
    figure.querySelector('.choice [name="' + name + '"]').value = value;
  });
  const chart = figure.querySelector(".chart");
  // Other names need other room: all is drawn anew.
  if (views.has(chart)) draw(chart);
};
const startChoice = (chart) => {
  const { names, ...first } = specOf(chart).usermeta?.choice ?? {};
  if (!names) return;
  const figure = chart.closest("figure");
  const box = make("div", { className: "choice" });
  Object.entries(first).forEach(([name, value]) => {
    const label = make("label", { textContent: name + " " });
    const select = make("select", { name });
    names.forEach((one) => select.append(make("option", { value: one, textContent: one })));
    select.value = value;
    select.addEventListener("change", () => choose(figure, { [name]: select.value }));
    label.append(select);
    box.append(label);
  });
  chart.before(box);
};
