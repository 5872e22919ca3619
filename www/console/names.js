// Text that a stranger chose, shown so that it can neither hide nor disturb what is around it.

/** What leaves no mark, or changes where others are put: controls, formats, spaces but one, what is ignorable. */
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]/u;
const PARTS = /([\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800])/gu;

/** As nodes: isolated from the direction of what is around, with what is unseen spelled out. */
export function shown(text) {
  const isolate = document.createElement("bdi");
  for (const part of text.split(PARTS)) {
    if (part === "") continue;
    if (isPlain(part)) isolate.append(part);
    else isolate.append(escape(part));
  }
  const [first, last] = [isolate.firstChild, isolate.lastChild];
  // A space between words is seen; one at an end is not.
  for (const end of new Set([first, last])) {
    if (end instanceof Text && end.data === " ") end.replaceWith(escape(" "));
  }
  return isolate;
}

/** As text, for attributes and for what is read aloud. */
export function spelled(text) {
  return text.replace(PARTS, (part) => (isPlain(part) ? part : `[${code(part)}]`));
}

/** JSON over several lines; what is unseen inside is spelled out, what indents it is not. */
export function shownJson(json) {
  const pretty = JSON.stringify(json, null, 2);
  const fragment = document.createDocumentFragment();
  pretty.split("\n").forEach((line, at) => {
    const rest = line.trimStart();
    fragment.append(`${at ? "\n" : ""}${line.slice(0, line.length - rest.length)}`, shown(rest));
  });
  return fragment;
}

function isPlain(part) {
  return part === " " || !UNSEEN.test(part);
}

function escape(part) {
  const mark = document.createElement("span");
  mark.className = "spelt";
  mark.textContent = code(part);
  return mark;
}

function code(part) {
  return `U+${part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
