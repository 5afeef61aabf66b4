// Values as elements.

const SHORT = 60; // characters of a text that may be next to its key
const [FIRST_LINES, LAST_LINES, WIDE] = [12, 4, 60]; // lines of a long text that are in sight, those that are no reason for a button, and the characters of a line

// `whole`: gets all of a text of which the value is the beginning.
function valueElement(value, whole) {
  switch (value?.kind) {
    case "text": return value.all ? longElement(value) : value.markdown ? replyElement(value, whole) : value.block ? blockElement(value, whole) : element("pre", { class: value.text.length <= SHORT && "short", title: value.whole }, value.text);
    case "png": return element("img", { src: `data:image/png;base64,${value.data}`, alt: value.title });
    case "grid": return details(value.title, [
      table(value.columns, value.rows.map(cells => ({ cells })), null, value.looks, value.types), value.more ? `… ${value.more}` : ""]);
    case "group": return details(value.title, [
      element("ul", {}, value.parts.map(([key, part]) => element("li", {}, key == null ? "" : keyElement(key), valueElement(part)))),
      value.more ? `… ${number(value.more)} more` : ""], value.parts.length <= 12);
  }
  return element("pre", {}, "—");
}

// A text among other values: a line of it, and all of it when that is opened. What a model answered is written.
function longElement({ text, all, markdown }) {
  if (markdown) return markdownElement(all);
  return element("details", { class: "long" }, element("summary", {}, element("code", {}, text)), element("pre", { class: "whole" }, all));
}

// What a model answered, and a button for the rest of it.
function replyElement({ text, more }, whole) {
  const node = markdownElement(text);
  return more ? element("div", {}, node, whole ? moreButton(more, whole, all => markdownElement(all, node)) : hint(`… and ${number(more)} more lines`)) : node;
}

// JupyterLab writes the Markdown of a model; elsewhere it is plain text. A node that has something written keeps it until this is.
// A node out of the page, as each is for a moment at the end of its cell, is written when it is there again.
function markdownElement(text, node = element("div", { class: "markdown" }), arriving = false) {
  const plain = name => node.replaceChildren(element("pre", { class: name }, text));
  if (!node.firstChild) plain("late");
  const observer = new ResizeObserver(() => {
    if (!node.clientHeight) return;
    observer.disconnect();
    if (node.dispatchEvent(new CustomEvent("agf-markdown", { bubbles: true, composed: true, cancelable: true, detail: { text, node, arriving } }))) plain("");
  });
  observer.observe(node);
  return node;
}

// A text of several lines: the first ones, and a button for the others, so that no line is cut.
function blockElement({ text, more = 0 }, whole) {
  const lines = text.split("\n");
  let first = 0;
  for (let rows = 0; first < lines.length && (!first || rows < FIRST_LINES); first++) rows += 1 + Math.floor(lines[first].length / WIDE);
  if (!more && lines.length - first <= LAST_LINES) first = lines.length;
  const left = lines.length - first + more, pre = element("pre", { class: "whole" }, left ? lines.slice(0, first).join("\n") : text);
  if (!left) return pre;
  const rest = more ? `\n… and ${number(more)} more lines` : "";
  return element("div", {}, pre, moreButton(left, more && whole || (() => text + rest), all => { pre.textContent = all; }));
}

// A button for the lines of a text that are not in sight; `get` returns all of it.
function moreButton(left, get, show) {
  const open = async event => {
    const pressed = event.currentTarget;
    try {
      show(await get());
      pressed.remove();
    } catch (error) { pressed.replaceWith(hint(error.message)); }
  };
  return button(`… and ${number(left)} more line${left === 1 ? "" : "s"}`, open, { class: "link", title: "Show all of the text" });
}

function details(title, children, open = true) {
  return element("details", { open }, element("summary", {}, title), children);
}

function keyElement(key) {
  return element("span", { style: { opacity: 0.75 } }, `${key}: `);
}
