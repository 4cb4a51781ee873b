// Pictures that look the same anywhere: dark ink on white, whatever the page has.
const PICTURE_WIDTH = 560;
// A colour of the page on light ground.
const light = (name) => [...document.styleSheets[0].cssRules]
  .filter((rule) => rule.selectorText === ":root")
  .map((rule) => rule.style.getPropertyValue(name))
  .find(Boolean) ?? "#888";
const picture = async (chart) => {
  const drawing = await viewOf(chart, PICTURE_WIDTH, page.config, { renderer: "none" }).toSVG();
  return drawing.replaceAll(/var\((--[\w-]+)\)/g, (found, name) => light(name)).replace("<svg ", '<svg style="background:#fff" ');
};

// Text in lines of at most this width.
const linesOf = (ink, text, width) => text.split(" ").reduce((lines, word) => {
  const longer = lines.length ? lines.at(-1) + " " + word : word;
  if (lines.length && ink.measureText(longer).width <= width) lines[lines.length - 1] = longer;
  else lines.push(word);
  return lines;
}, []);
// The picture with its title, in twice as many pixels as it has on the page.
const painted = async (chart, title) => {
  const image = new Image();
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(await picture(chart));
  await image.decode();
  const [edge, line, scale] = [16, 22, 2];
  const canvas = make("canvas", { width: (image.width + 2 * edge) * scale });
  const ink = canvas.getContext("2d");
  const font = "600 16px " + page.config.font;
  ink.font = font;
  const lines = linesOf(ink, title, image.width);
  const top = edge + lines.length * line + 6;
  canvas.height = (top + image.height + edge) * scale;
  ink.scale(scale, scale);
  ink.fillStyle = "#fff";
  ink.fillRect(0, 0, canvas.width, canvas.height);
  // A new height has set all back.
  ink.font = font;
  ink.fillStyle = light("--ink");
  ink.textBaseline = "top";
  lines.forEach((words, index) => ink.fillText(words, edge, edge + index * line));
  ink.drawImage(image, edge, top);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
};
