// Elements made from data, and a pause before something is done. Text always goes in as text, so nothing in a payload can
// become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

// An element that is shown only while it has something to say.
export function say(node, message) {
  node.textContent = message || "";
  node.hidden = !message;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function later(ms, action) {
  let waiting;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(action, ms, ...given);
  };
}
