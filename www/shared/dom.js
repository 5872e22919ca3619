// The little that the pages need beyond the DOM itself.

/** An element: `make("p", { className: "soft", "aria-label": "x" }, "text", child)`. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/**
 * An element that the page has from the start.
 * @returns {any}
 */
export function part(id) {
  return document.getElementById(id);
}

/** Writes only what has changed, so that what stays is not painted again. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** The same for an attribute; `null` takes it away. */
export function setAttribute(node, name, value) {
  if (value === null) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

/** A button that is of no use now keeps its place and the focus; whoever handles its click asks `isUsable`. */
export function setUsable(button, usable) {
  setAttribute(button, "aria-disabled", usable ? null : "true");
}

export function isUsable(button) {
  return button.getAttribute("aria-disabled") !== "true";
}

const region = make("div", { className: "unseen", role: "status", "aria-live": "polite" });
document.body.append(region);

/** Says it to whoever listens to the page instead of looking at it. What is said in one turn is said together. */
export function announce(text) {
  if (said.length === 0)
    setTimeout(() => region.replaceChildren(make("p", {}, said.splice(0).join(" "))), 50);
  said.push(text);
}
const said = [];
