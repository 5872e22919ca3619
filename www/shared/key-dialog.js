// Asks for a key. It is handed to whoever asked, and kept nowhere else.
import { make, setAttribute, setText } from "./dom.js";

/** What a key can consist of, as the package has it: it goes into a header. */
const KEY = /^[\x21-\x7e]*$/;

/** Resolves with the key, "" for none, or `undefined` where it was cancelled. `why` is said above the field. */
export function askForKey(why) {
  const input = make("input", {
    type: "password",
    id: "key",
    autocomplete: "off",
    spellcheck: false,
    "aria-describedby": "key-problem",
  });
  const problem = make("p", { id: "key-problem", className: "problem", role: "alert" });
  const cancel = make("button", { type: "button" }, "Cancel");
  const form = make(
    "form",
    { method: "dialog" },
    make("h2", { id: "key-title" }, "A key, please"),
    make("p", {}, why),
    make("div", { className: "field" }, make("label", { htmlFor: "key" }, "Key"), input),
    problem,
    make(
      "p",
      { className: "soft small" },
      "It stays in this page's memory and goes when the page does. Left empty: go on without a key.",
    ),
    make(
      "div",
      { className: "buttons" },
      make("button", { className: "primary" }, "Use it"),
      cancel,
    ),
  );
  const dialog = make("dialog", { "aria-labelledby": "key-title" }, form);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let given;
    // The form's own submission is forbidden by the pages' Content-Security-Policy.
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const key = input.value.trim();
      if (!KEY.test(key)) {
        setText(problem, "A key is printable ASCII without spaces.");
        setAttribute(input, "aria-invalid", "true");
        return input.focus();
      }
      given = key;
      dialog.close();
    });
    cancel.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(given);
    });
    dialog.showModal();
  });
}
