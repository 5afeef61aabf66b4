// Elements of the page. Every text is written as text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "style") Object.assign(node.style, value);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter(child => child != null && child !== ""));
  return node;
}

function svgElement(tag, attributes, text) {
  const node = document.createElementNS(SVG, tag);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  if (text != null) node.textContent = text;
  return node;
}

function button(name, click, attributes = {}) {
  return element("button", { type: "button", ...attributes, on: { click } }, name);
}

function hint(text) {
  return element("p", { class: "hint" }, text);
}

// A table of texts. `columns` are names or cells; `rows` have `cells`, and `bad` for a failure; `open` is called with the row that a person opens;
// `looks` and `types` are of the columns.
function table(columns, rows, open, looks = [], types = []) {
  const head = element("tr", {}, columns.map((name, k) => name.nodeType ? name : name ? element("th", { scope: "col", class: looks[k], title: types[k] }, name) : element("td")));
  const body = rows.map(row => {
    const on = open && { click: () => open(row), keydown: event => event.key === "Enter" && open(row) };
    const cells = row.cells.map((text, k) => element("td", { class: row.bad ? "bad" : looks[k], title: text }, text));
    return element("tr", open ? { tabindex: 0, on } : {}, cells);
  });
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, body)));
}

// Enter ends the writing in a field: JupyterLab takes the key for the cell otherwise.
function ends(event) {
  event.stopPropagation();
  if (event.key === "Enter") event.target.blur();
}

// The same words as `amounts.duration` in Python.
function duration(seconds) {
  if (seconds == null) return "";
  const milliseconds = Math.round(seconds * 1e3), tenths = Math.round(seconds * 10), whole = Math.round(seconds);
  if (milliseconds < 1000) return milliseconds > 0 ? `${milliseconds} ms` : "< 1 ms";
  if (tenths < 600) return `${(tenths / 10).toFixed(1)} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

const number = count => count.toLocaleString("en");
