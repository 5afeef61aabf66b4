// Values as elements. Only a data frame brings HTML, which goes into a frame without scripts and connections.

const POLICY = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">`;

function valueElement(value) {
  switch (value?.kind) {
    case "text": return element("pre", {}, value.text);
    case "png": return element("img", { src: `data:image/png;base64,${value.data}`, alt: value.title });
    case "grid": return details(value.title, [
      table(value.columns, value.rows.map(cells => ({ cells }))), value.more ? `… ${value.more}` : ""]);
    case "group": return details(value.title, [
      element("ul", {}, value.parts.map(([key, part]) => element("li", {}, key == null ? "" : keyElement(key), valueElement(part)))),
      value.more ? `… ${number(value.more)} more` : ""], value.parts.length <= 12);
    case "frame": return details(value.title, [value.html ? sandboxed(value) : element("pre", {}, value.text)]);
  }
  return element("pre", {}, "—");
}

function details(title, children, open = true) {
  return element("details", { open }, element("summary", {}, title), children);
}

function keyElement(key) {
  return element("span", { style: { opacity: 0.75 } }, `${key}: `);
}

function sandboxed(value) {
  const page = `${POLICY}<body style="font:12px sans-serif;color:#1b1b1b;background:#fff">${value.html}`;
  return element("iframe", { sandbox: "", title: value.title, srcdoc: page });
}
